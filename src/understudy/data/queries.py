"""Rows of the same query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def group_rows(queries: Sequence[str], labels: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Return the rows of each query, in the order in which queries occur.

    Queries whose passages all have the same label are left out: every order is equally right.
    """
    places: dict[str, list[int]] = {}
    for place, query in enumerate(queries):
        places.setdefault(query, []).append(place)
    groups = [np.array(group) for group in places.values()]
    return [group for group in groups if np.ptp(labels[group]) > 0]
