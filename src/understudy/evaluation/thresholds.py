"""Choose the lowest probability at which a label is predicted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.evaluation.bootstrap import estimate_difference
from understudy.evaluation.metrics import micro_f1_of_sets

_FOLDS = 5
_LEAST_GAIN = 0.005  # of F1; a smaller gain is not worth another threshold, and often chance


def reliable_threshold(
    probabilities_N: NDArray[np.float64], gold_N: NDArray[np.bool_], *, usual: float = 0.5
) -> float:
    """Return the threshold with the highest F1 if it is better on other rows too, otherwise the usual one.

    Thresholds are chosen on four fifths of the rows and used on the remaining fifth, in turn. The F1 of these
    decisions must be at least half a point higher than at the usual threshold, with a 95 % interval that
    excludes 0.
    """
    chosen = best_threshold(probabilities_N, gold_N, usual=usual)
    if chosen == usual:
        return usual
    folds_N = np.arange(len(gold_N)) % _FOLDS
    given_N = np.zeros(len(gold_N), dtype=np.bool_)
    for fold in range(_FOLDS):
        inside_N = folds_N == fold
        threshold = best_threshold(probabilities_N[~inside_N], gold_N[~inside_N], usual=usual)
        given_N[inside_N] = probabilities_N[inside_N] >= threshold
    sides = [
        np.stack([one, gold_N], axis=1).astype(np.float64) for one in (given_N, probabilities_N >= usual)
    ]
    gain = estimate_difference(micro_f1_of_sets, *sides)
    return chosen if gain.value >= _LEAST_GAIN and gain.low > 0 else usual


def best_threshold(
    probabilities_N: NDArray[np.float64], gold_N: NDArray[np.bool_], *, usual: float = 0.5
) -> float:
    """Return the threshold with the highest F1 for one label, which is predicted at or above it.

    Only the order of threshold and probabilities decides which rows get the label, so the candidates are the
    midpoints of neighbouring probabilities, a value below all of them, and the usual threshold. Among equally
    good ones, the one nearest to the usual threshold is returned, and the higher of two equally near. If no
    row has the label, it is the usual threshold.

    Args:
        probabilities_N: the label's probability in each row.
        gold_N: whether each row has the label.

    Examples:
        >>> best_threshold(np.array([0.1, 0.25, 0.375, 0.9]), np.array([False, False, True, True]))
        0.3125
    """
    if not gold_N.any():
        return usual
    scores, rows = np.unique(probabilities_N, return_inverse=True)
    middles = (scores[:-1] + scores[1:]) / 2
    # The midpoint of two adjacent floats is one of them, and must not be the lower one.
    middles = np.where(middles > scores[:-1], middles, scores[1:])
    tried = np.array([scores[0] / 2, *middles, usual])
    # Rows with each probability: how many have the label, and how many in all; then summed from each upwards.
    right = np.bincount(rows, weights=gold_N, minlength=len(scores))
    given = np.bincount(rows, minlength=len(scores))
    right, given = (np.append(np.cumsum(counts[::-1])[::-1], 0) for counts in (right, given))
    first = np.searchsorted(scores, tried)  # the lowest probability that reaches the threshold
    f1 = 2 * right[first] / (given[first] + gold_N.sum())
    best = tried[f1 == f1.max()]
    return float(min(best, key=lambda threshold: (abs(threshold - usual), -threshold)))
