"""Exact nearest neighbours in one pass over a corpus of any size.

The task's texts are few and the corpus is large, so the texts are held in memory and compared with the corpus
block by block. The corpus is not indexed, and only the best sentences so far are kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.mining.vectors import Vectors

# Q queries, S sentences, K neighbours, D dimensions

_BLOCK = 2048  # queries that are compared at a time


class Nearest:
    """The most similar sentences for each query so far.

    Attributes:
        similarities_QK: cosine similarities in descending order; -1 where nothing has been found yet.
        numbers_QK: the numbers of the sentences.
    """

    def __init__(self, queries_QD: Vectors, count: int) -> None:
        self.queries_QD = queries_QD
        self.similarities_QK = np.full((len(queries_QD), count), -1.0, np.float32)
        self.numbers_QK = np.full((len(queries_QD), count), -1, np.int64)

    def add(self, vectors_SD: Vectors, first: int) -> None:
        """Compare sentences with every query; `first` is the number of the first of them."""
        numbers_S = np.arange(first, first + len(vectors_SD))
        for start in range(0, len(self.queries_QD), _BLOCK):
            part = slice(start, start + _BLOCK)
            scores_QS = self.queries_QD[part] @ vectors_SD.T
            # After the first blocks few sentences are better than the last that is kept.
            better = np.flatnonzero((scores_QS > self.similarities_QK[part, -1:]).any(axis=1))
            for place in better:
                self._merge(start + int(place), scores_QS[place], numbers_S)

    def _merge(self, query: int, scores_S: NDArray[np.float32], numbers_S: NDArray[np.int64]) -> None:
        is_better = scores_S > self.similarities_QK[query, -1]
        scores = np.concatenate([self.similarities_QK[query], scores_S[is_better]])
        numbers = np.concatenate([self.numbers_QK[query], numbers_S[is_better]])
        # Stable: of equally similar sentences, the earlier is kept.
        order = np.argsort(-scores, kind="stable")[: self.similarities_QK.shape[1]]
        self.similarities_QK[query], self.numbers_QK[query] = scores[order], numbers[order]
