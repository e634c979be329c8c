"""What a run costs: the measure that `plan` adds up."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Part:
    """Some of a run's work.

    Attributes:
        steps: of the optimiser; 0 where there is none.
        tokens: that go through the models, over all steps and trials.
        seconds: on this machine.
    """

    name: str
    steps: int
    tokens: float
    flop: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Cost:
    """A run's parts, the bytes it needs on disk (at most, and when it is done) and for its weights, and
    whether its products are of 16 bits."""

    parts: list[Part]
    disk: dict[str, float]
    weights: float
    is_half: bool = False
