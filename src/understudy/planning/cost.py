"""The cost of a run, as `plan` adds it up."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a run's work.

    Attributes:
        steps: optimiser steps; 0 if there are none.
        tokens: tokens that pass through the models, over all steps and trials.
        seconds: time on this machine.
    """

    name: str
    steps: int
    tokens: float
    flop: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of a run.

    Attributes:
        disk: bytes on disk, `at most` and `when done`.
        weights: bytes of weights in memory.
        is_half: whether matrix products are computed in 16 bits.
    """

    parts: list[Part]
    disk: dict[str, float]
    weights: float
    is_half: bool = False
