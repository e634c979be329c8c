from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.data.decode import softmax
from understudy.evaluation.calibration import (
    Bin,
    answered,
    calibrate,
    expected_calibration_error,
    fit_temperature,
    reliability,
)


def overconfident(num_rows: int, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Return logits that are `factor` times too large for how often they are right."""
    generator = np.random.default_rng(3)
    honest = generator.normal(0.0, 1.5, (num_rows, 3))
    classes = [generator.choice(3, p=row) for row in softmax(honest)]
    return factor * honest, np.array(classes)


def test_a_temperature_by_hand() -> None:
    """Four decisions of margin 4, three of them right: sigmoid(4/T) = 3/4, so T = 4 / ln 3."""
    logits = np.array([[4.0, 0.0]] * 4)
    assert fit_temperature(logits, np.array([0, 0, 0, 1])) == pytest.approx(4 / math.log(3), abs=1e-3)


def test_the_error_by_hand() -> None:
    """Two bins of ten: 0.9 on average and half right, and 0.6 and all right: (2·0.4 + 1·0.4) / 3."""
    confidence = np.array([0.88, 0.92 - 0.02, 0.6])
    correct = np.array([True, False, True])
    assert reliability(confidence, correct, bins=10) == [
        Bin(1, pytest.approx(0.6), 1.0),
        Bin(2, pytest.approx(0.89), 0.5),
    ]
    error = expected_calibration_error(confidence, correct, bins=10)
    assert error == pytest.approx((2 * 0.39 + 1 * 0.4) / 3)


def test_a_confidence_of_one_has_a_bin() -> None:
    assert reliability(np.array([1.0, 0.0]), np.array([True, False])) == [Bin(1, 0.0, 0.0), Bin(1, 1.0, 1.0)]


def test_overconfident_logits_are_calibrated() -> None:
    logits, classes = overconfident(4000, factor=3.0)
    found = calibrate(logits, classes)
    assert found is not None
    assert found.temperature == pytest.approx(3.0, rel=0.08)
    assert found.error_before > 0.1
    assert found.error_after < 0.03
    assert sum(one.count for one in found.bins_after) == found.num_decisions == 4000


def test_calibrated_logits_are_left_as_they_are() -> None:
    found = calibrate(*overconfident(4000, factor=1.0))
    assert found is not None
    assert found.temperature == pytest.approx(1.0, rel=0.08)


def test_a_temperature_that_does_not_help_is_not_applied() -> None:
    logits, classes = overconfident(2000, factor=1.0)
    parts = [
        calibrate(logits[start : start + 100], classes[start : start + 100]) for start in range(0, 2000, 100)
    ]
    found = [one for one in parts if one is not None]
    assert all(one.error_after <= one.error_before for one in found)
    assert {one.temperature == 1.0 for one in found} == {True, False}
    idle = next(one for one in found if one.temperature == 1.0)
    assert idle.bins_after == idle.bins_before


@given(st.floats(0.2, 5.0))
def test_the_temperature_follows_the_scale_of_the_logits(scale: float) -> None:
    logits, classes = overconfident(200, factor=1.0)
    expected = scale * fit_temperature(logits, classes)
    assert fit_temperature(scale * logits, classes) == pytest.approx(expected, rel=1e-3)


def test_a_few_decisions_are_not_calibrated() -> None:
    assert calibrate(*overconfident(49, factor=2.0)) is None


def test_decisions_that_are_all_right_have_no_best_temperature() -> None:
    assert calibrate(np.tile([[1.0, 0.0]], (60, 1)), np.zeros(60, dtype=np.int64)) is None


def test_rows_are_counted_and_not_their_decisions() -> None:
    assert calibrate(*overconfident(200, factor=2.0), num_rows=40) is None


def test_accuracy_of_the_rows_that_are_answered() -> None:
    """Ten rows; the two least confident are wrong."""
    confidence = np.linspace(0.5, 0.95, 10)
    found = answered(confidence, np.arange(10) >= 2)
    assert [(row["share"], row["accuracy"]) for row in found] == [
        (1.0, 0.8), (1.0, 0.8), (0.9, pytest.approx(8 / 9)), (0.8, 1.0), (0.7, 1.0), (0.5, 1.0),
    ]  # fmt: skip
    assert found[3]["threshold"] == pytest.approx(0.6)


def test_rows_of_equal_confidence_are_answered_together() -> None:
    assert {row["share"] for row in answered(np.full(8, 0.7), np.ones(8, dtype=bool))} == {1.0}
