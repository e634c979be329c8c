"""Calibration: a temperature for the logits, so that probabilities agree with how often they are right.

Guo et al. 2017, "On Calibration of Modern Neural Networks". One temperature divides all logits, so the
predictions stay the same and only their probabilities change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from understudy.data.decode import softmax

# N decisions, C classes

Floats = NDArray[np.floating]
_LIMITS = (0.05, 20.0)
_BINS = 15
_FOLDS = 5
_FEWEST = 50  # with fewer rows, a temperature is mostly chance
_SHARES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5)


@dataclass(frozen=True)
class Bin:
    """Decisions of similar confidence: how many there are, their mean confidence, and their accuracy."""

    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """How far a model's probabilities can be trusted, before and after the temperature.

    Attributes:
        temperature: divides the logits; 1 if none lowers the error on decisions that it was not fitted on.
        num_rows, num_decisions: what it was fitted on; a row of several labels has several decisions.
        error_before, error_after: the expected calibration error. After is measured on decisions that the
            temperature was not fitted on.
        bins_before, bins_after: the reliability diagram.
        answered: share of rows answered, the lowest probability among them, and their accuracy.
    """

    temperature: float
    num_rows: int
    num_decisions: int
    error_before: float
    error_after: float
    bins_before: Sequence[Bin]
    bins_after: Sequence[Bin]
    answered: Sequence[dict[str, float]]

    def content(self) -> dict[str, Any]:
        """Return the calibration as JSON values."""
        return asdict(self)


def calibrate(
    logits_NC: Floats, classes_N: NDArray[np.integer], *, num_rows: int | None = None
) -> Calibration | None:
    """Fit a temperature to decisions whose correct classes are known.

    Args:
        num_rows: the number of rows, if a row has several decisions.

    Returns:
        None if there are too few rows, or if no temperature is best, e.g. because all decisions are right.
    """
    if (len(classes_N) if num_rows is None else num_rows) < _FEWEST:
        return None
    temperature = fit_temperature(logits_NC, classes_N)
    if not 1.01 * _LIMITS[0] < temperature < 0.99 * _LIMITS[1]:
        return None
    order = np.random.default_rng(0).permutation(len(classes_N))
    others = np.empty(len(classes_N))
    for fold in np.array_split(order, _FOLDS):
        rest = np.setdiff1d(order, fold)
        others[fold] = fit_temperature(logits_NC[rest], classes_N[rest])
    correct = logits_NC.argmax(axis=-1) == classes_N
    before = softmax(logits_NC).max(axis=-1)
    after = softmax(logits_NC / others[:, None]).max(axis=-1)
    error_before, error_after = (expected_calibration_error(one, correct) for one in (before, after))
    if error_after > error_before:
        temperature, after, error_after = 1.0, before, error_before
    shipped = softmax(logits_NC / temperature).max(axis=-1)
    return Calibration(
        temperature=temperature,
        num_rows=len(classes_N) if num_rows is None else num_rows,
        num_decisions=len(classes_N),
        error_before=error_before,
        error_after=error_after,
        bins_before=reliability(before, correct),
        bins_after=reliability(after, correct),
        answered=answered(shipped, correct),
    )


def fit_temperature(logits_NC: Floats, classes_N: NDArray[np.integer]) -> float:
    """Return the temperature with the lowest negative log-likelihood, from 0.05 to 20."""
    rows = np.arange(len(classes_N))

    def loss(log_temperature: float) -> float:
        scaled = logits_NC.astype(np.float64) / np.exp(log_temperature)
        top = scaled.max(axis=-1)
        log_sum = top + np.log(np.exp(scaled - top[:, None]).sum(axis=-1))
        return float(np.mean(log_sum - scaled[rows, classes_N]))

    found = minimize_scalar(loss, bounds=tuple(np.log(_LIMITS)), method="bounded", options={"xatol": 1e-6})
    return round(float(np.exp(found.x)), 4)


def reliability(confidence_N: Floats, correct_N: NDArray[np.bool_], bins: int = _BINS) -> list[Bin]:
    """Return the occupied bins of equal width, in order of confidence."""
    places = np.clip(np.ceil(confidence_N * bins).astype(np.int64) - 1, 0, bins - 1)
    return [
        Bin(int(chosen.sum()), float(confidence_N[chosen].mean()), float(correct_N[chosen].mean()))
        for chosen in (places == number for number in range(bins))
        if chosen.any()
    ]


def expected_calibration_error(
    confidence_N: Floats, correct_N: NDArray[np.bool_], bins: int = _BINS
) -> float:
    """Return the mean distance between confidence and accuracy over bins, weighted by their size.

    >>> float(expected_calibration_error(np.array([0.75, 0.75]), np.array([True, False])))
    0.25
    """
    found = reliability(confidence_N, correct_N, bins)
    return sum(one.count * abs(one.confidence - one.accuracy) for one in found) / len(confidence_N)


def answered(confidence_N: Floats, correct_N: NDArray[np.bool_]) -> list[dict[str, float]]:
    """Return the accuracy if only the most confident share of the rows is answered, for several shares.

    A threshold answers every row of at least that probability, so the share can be larger than asked for.
    """
    ordered = np.sort(confidence_N)[::-1]
    rows = []
    for share in _SHARES:
        threshold = float(ordered[int(np.ceil(share * len(ordered))) - 1])
        chosen = confidence_N >= threshold
        rows.append(
            {
                "share": float(chosen.mean()),
                "threshold": threshold,
                "accuracy": float(correct_N[chosen].mean()),
            }
        )
    return rows
