"""Choose the probability from which on a label is given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def best_threshold(
    probabilities_N: NDArray[np.float64], gold_N: NDArray[np.bool_], *, usual: float = 0.5
) -> float:
    """Return the threshold with the highest F1 of one label, which is given from the threshold on.

    Only a value between two neighbouring probabilities changes which rows get the label, so those in the
    middle are tried, one below all of them, and the usual one. Of equally good ones the nearest to the usual
    one is returned, and of two as near the higher. Without a row that has the label it is the usual one.

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
    # The middle of two neighbouring floats is one of them, and must not be the lower.
    middles = np.where(middles > scores[:-1], middles, scores[1:])
    tried = np.array([scores[0] / 2, *middles, usual])
    # How many rows with each probability have the label, and how many there are; then from each one upwards.
    right = np.bincount(rows, weights=gold_N, minlength=len(scores))
    given = np.bincount(rows, minlength=len(scores))
    right, given = (np.append(np.cumsum(counts[::-1])[::-1], 0) for counts in (right, given))
    first = np.searchsorted(scores, tried)  # the lowest probability that is enough
    f1 = 2 * right[first] / (given[first] + gold_N.sum())
    best = tried[f1 == f1.max()]
    return float(min(best, key=lambda threshold: (abs(threshold - usual), -threshold)))
