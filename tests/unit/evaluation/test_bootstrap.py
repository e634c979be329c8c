from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest

from understudy.evaluation.bootstrap import estimate, estimate_difference, estimate_runs
from understudy.evaluation.metrics import SUMMED, Metric, Outcomes, accuracy


def outcomes(num_rows: int, num_right: int) -> np.ndarray:
    predictions = np.zeros(num_rows)
    predictions[:num_right] = 1
    return np.stack([predictions, np.ones(num_rows)], axis=1)


def test_the_interval_is_that_of_a_proportion() -> None:
    figure = estimate(accuracy, outcomes(1_000, 800))
    assert figure.value == 0.8
    # 1.96 · √(0.8 · 0.2 / 1000) = 0.0248
    assert figure.half_width == pytest.approx(0.0248, abs=0.003)
    assert figure.low < 0.8 < figure.high


def test_a_seed_decides() -> None:
    rows = outcomes(100, 50)
    assert estimate(accuracy, rows, seed=1) == estimate(accuracy, rows, seed=1)
    assert estimate(accuracy, rows, seed=1) != estimate(accuracy, rows, seed=2)


def test_equal_models_differ_by_nothing() -> None:
    rows = outcomes(100, 50)
    figure = estimate_difference(accuracy, rows, rows)
    assert (figure.value, figure.low, figure.high) == (0.0, 0.0, 0.0)


def test_pairing_narrows_the_interval() -> None:
    first, second = outcomes(500, 300), outcomes(500, 290)
    paired = estimate_difference(accuracy, first, second)
    assert paired.value == pytest.approx(0.02)
    assert paired.half_width < estimate(accuracy, first).half_width / 2
    assert paired.low > 0


def test_both_need_the_same_rows() -> None:
    with pytest.raises(ValueError, match="same rows, got 3 and 4"):
        estimate_difference(accuracy, outcomes(3, 1), outcomes(4, 1))


def test_runs_with_unequal_seeds_have_a_wider_interval_than_equal_ones() -> None:
    calm = [outcomes(500, 400)] * 3
    nervous = [outcomes(500, count) for count in (300, 400, 500)]
    assert estimate_runs(accuracy, calm).value == pytest.approx(0.8)
    assert estimate_runs(accuracy, nervous).value == pytest.approx(0.8)
    assert estimate_runs(accuracy, nervous).half_width > 2 * estimate_runs(accuracy, calm).half_width


def test_a_higher_mean_of_nervous_seeds_is_not_yet_seen() -> None:
    """Means 0.82 and 0.80, but one seed of three is worse: the interval has 0 in it."""
    first = [outcomes(500, count) for count in (450, 430, 350)]
    second = [outcomes(500, count) for count in (400, 400, 400)]
    figure = estimate_runs(accuracy, first, second)
    assert figure.value == pytest.approx(0.02)
    assert figure.low < 0 < figure.high
    clear = estimate_runs(accuracy, [outcomes(500, 450)] * 3, second)
    assert clear.low > 0


def test_runs_need_the_same_rows_and_seeds() -> None:
    with pytest.raises(ValueError, match="same rows"):
        estimate_runs(accuracy, [outcomes(3, 1), outcomes(4, 1)])
    with pytest.raises(ValueError, match="as many seeds"):
        estimate_runs(accuracy, [outcomes(3, 1)] * 2, [outcomes(3, 1)])


@pytest.mark.parametrize("metric", SUMMED)
def test_a_metric_of_sums_has_the_interval_of_its_rows(metric: Metric) -> None:
    generator = np.random.default_rng(3)
    outcomes, others = (generator.random((2, 40, 6)) < 0.4).astype(np.float64)
    parts, of_sums = SUMMED[metric]

    def plain(rows: Outcomes) -> float:
        """The same of rows that are chosen and not weighted."""
        return of_sums(parts(rows).sum(axis=0))

    assert astuple(estimate(metric, outcomes)) == pytest.approx(astuple(estimate(plain, outcomes)), abs=1e-12)
    difference, expected = (estimate_difference(one, outcomes, others) for one in (metric, plain))
    assert astuple(difference) == pytest.approx(astuple(expected), abs=1e-12)
    runs, expected = (estimate_runs(one, [outcomes, others], [others, others]) for one in (metric, plain))
    assert astuple(runs) == pytest.approx(astuple(expected), abs=1e-12)
