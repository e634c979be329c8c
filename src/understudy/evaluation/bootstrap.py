"""The uncertainty of scores: percentile bootstrap over rows, paired for the comparison of two models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.evaluation.metrics import SUMMED, Metric, Outcomes, counted

NUM_SAMPLES = 1_000
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """
        >>> str(Estimate(0.8512, 0.84, 0.863))
        '0.851 (0.840–0.863)'
        >>> str(Estimate(-0.033, -0.115, 0.066))
        '-0.033 (-0.115 to 0.066)'
        """
        to = "–" if self.low >= 0 else " to "
        return f"{self.value:.3f} ({self.low:.3f}{to}{self.high:.3f})"

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def estimate(metric: Metric, outcomes: Outcomes, *, seed: int = 0) -> Estimate:
    """Return a metric of one model with its interval."""
    generator = np.random.default_rng(seed)
    num_rows = len(outcomes)
    sample = _of_rows(metric, outcomes)
    samples = [sample(generator.integers(0, num_rows, num_rows)) for _ in range(NUM_SAMPLES)]
    return _interval(metric(outcomes), samples)


def estimate_difference(metric: Metric, first: Outcomes, second: Outcomes, *, seed: int = 0) -> Estimate:
    """Return first minus second, resampling the same rows for both, so that shared difficulty cancels out."""
    if len(first) != len(second):
        raise ValueError(f"both must have the same rows, got {len(first)} and {len(second)}")
    generator = np.random.default_rng(seed)
    num_rows = len(first)
    sides, samples = [_of_rows(metric, side) for side in (first, second)], []
    for _ in range(NUM_SAMPLES):
        chosen = generator.integers(0, num_rows, num_rows)
        samples.append(sides[0](chosen) - sides[1](chosen))
    return _interval(metric(first) - metric(second), samples)


def estimate_runs(
    metric: Metric, runs: Sequence[Outcomes], others: Sequence[Outcomes] = (), *, seed: int = 0
) -> Estimate:
    """Return a metric's mean over seeds, or its difference to other runs, with an interval.

    A sample draws seeds and rows with replacement, the same ones on both sides, so that the interval covers
    the variation of seeds as well as the choice of rows.

    Args:
        runs: outcomes of each seed on the same rows.
        others: outcomes of the runs to compare with, seed by seed; empty for the mean itself.
    """
    sizes = {len(run) for run in (*runs, *others)}
    if len(sizes) != 1 or (others and len(others) != len(runs)):
        raise ValueError(f"runs must have the same rows and as many seeds, got rows {sorted(sizes)}")
    generator, num_rows = np.random.default_rng(seed), sizes.pop()
    sides = [[_of_rows(metric, run) for run in side] for side in (runs, others)]

    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values)) if values else 0.0

    samples = []
    for _ in range(NUM_SAMPLES):
        chosen = generator.integers(0, len(runs), len(runs)).tolist()
        rows = generator.integers(0, num_rows, num_rows)
        first, second = (mean([side[run](rows) for run in chosen] if side else ()) for side in sides)
        samples.append(first - second)
    return _interval(mean([metric(run) for run in runs]) - mean([metric(run) for run in others]), samples)


def _of_rows(metric: Metric, outcomes: Outcomes) -> Callable[[NDArray[np.int64]], float]:
    """Return the metric as a function of chosen rows, in its fastest form."""
    if metric in SUMMED:
        parts, finish = SUMMED[metric]
        parts_NK = parts(outcomes)

        def of_sums(rows: NDArray[np.int64]) -> float:
            weights_N = np.bincount(rows, minlength=len(parts_NK)).astype(parts_NK.dtype)
            return finish(weights_N @ parts_NK)

        return of_sums
    sampled = counted(metric)
    return lambda rows: sampled(outcomes[rows])


def _interval(value: float, samples: list[float]) -> Estimate:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(samples, [tail, 1 - tail])
    return Estimate(float(value), float(low), float(high))
