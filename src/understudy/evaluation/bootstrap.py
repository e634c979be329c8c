"""The uncertainty of scores: percentile bootstrap over rows, paired for the comparison of two models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.evaluation.metrics import Metric, Outcomes, counted

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
        """
        return f"{self.value:.3f} ({self.low:.3f}–{self.high:.3f})"

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def estimate(metric: Metric, outcomes: Outcomes, *, seed: int = 0) -> Estimate:
    """Return a metric of one model with its interval."""
    generator = np.random.default_rng(seed)
    num_rows = len(outcomes)
    sampled = counted(metric)
    samples = [sampled(outcomes[generator.integers(0, num_rows, num_rows)]) for _ in range(NUM_SAMPLES)]
    return _interval(metric(outcomes), samples)


def estimate_difference(metric: Metric, first: Outcomes, second: Outcomes, *, seed: int = 0) -> Estimate:
    """Return first minus second, resampling the same rows for both, so that shared difficulty cancels out."""
    if len(first) != len(second):
        raise ValueError(f"both must have the same rows, got {len(first)} and {len(second)}")
    generator = np.random.default_rng(seed)
    num_rows = len(first)
    sampled, samples = counted(metric), []
    for _ in range(NUM_SAMPLES):
        chosen = generator.integers(0, num_rows, num_rows)
        samples.append(sampled(first[chosen]) - sampled(second[chosen]))
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
    generator, num_rows, sampled = np.random.default_rng(seed), sizes.pop(), counted(metric)

    def mean(function: Metric, side: Sequence[Outcomes], chosen: Sequence[int], rows: Any) -> float:
        return float(np.mean([function(side[run][rows]) for run in chosen])) if side else 0.0

    samples = []
    for _ in range(NUM_SAMPLES):
        chosen = generator.integers(0, len(runs), len(runs)).tolist()
        rows = generator.integers(0, num_rows, num_rows)
        samples.append(mean(sampled, runs, chosen, rows) - mean(sampled, others, chosen, rows))
    everything = range(len(runs)), slice(None)
    return _interval(mean(metric, runs, *everything) - mean(metric, others, *everything), samples)


def _interval(value: float, samples: list[float]) -> Estimate:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(samples, [tail, 1 - tail])
    return Estimate(float(value), float(low), float(high))
