"""How sure a score is: percentile bootstrap over rows, paired where two models are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from understudy.evaluation.metrics import Outcomes

NUM_SAMPLES = 1_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def estimate(metric: Callable[[Outcomes], float], outcomes: Outcomes, *, seed: int = 0) -> Estimate:
    """A metric of one model with its interval."""
    generator = np.random.default_rng(seed)
    num_rows = len(outcomes)
    samples = [metric(outcomes[generator.integers(0, num_rows, num_rows)]) for _ in range(NUM_SAMPLES)]
    return _interval(metric(outcomes), samples)


def estimate_difference(
    metric: Callable[[Outcomes], float], first: Outcomes, second: Outcomes, *, seed: int = 0
) -> Estimate:
    """First minus second, the same rows drawn for both: what is hard for both cancels out."""
    if len(first) != len(second):
        raise ValueError(f"both must have the same rows, got {len(first)} and {len(second)}")
    generator = np.random.default_rng(seed)
    num_rows = len(first)
    samples = []
    for _ in range(NUM_SAMPLES):
        chosen = generator.integers(0, num_rows, num_rows)
        samples.append(metric(first[chosen]) - metric(second[chosen]))
    return _interval(metric(first) - metric(second), samples)


def _interval(value: float, samples: list[float]) -> Estimate:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(samples, [tail, 1 - tail])
    return Estimate(float(value), float(low), float(high))
