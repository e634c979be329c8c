"""Compare vectors: cosines, ranks and neighbours, and the metrics based on them.

Outcomes of a row are [cosine, score, rank]: the rank of the row's second text among the second texts of all
rows, by their cosine with the first one; NaN if no metric needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import sklearn.metrics
from numpy.typing import NDArray

from understudy.errors import RecipeError, did_you_mean
from understudy.evaluation.metrics import Metric, Outcomes, pearson, spearman

Vectors = NDArray[np.floating]

NEIGHBOURS = 10
_BLOCK = 1_024  # texts compared with all others at a time


def unit(vectors: Vectors) -> NDArray[np.float32]:
    """Scale vectors to length 1; a zero vector stays zero."""
    vectors = vectors.astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: NDArray[np.float32] = vectors / np.maximum(lengths, 1e-12)
    return scaled


def cosines(first: Vectors, second: Vectors) -> NDArray[np.float64]:
    """Return the cosine of each row of two arrays."""
    products: NDArray[np.float64] = np.einsum("nd,nd->n", unit(first), unit(second), dtype=np.float64)
    return products


def ranks(queries: Vectors, passages: Vectors, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the rank of each query's own passage among all different passages, counted from 1.

    Other passages that are right for the same query count as wrong.

    Args:
        texts: the passages' texts; equal ones count once.
    """
    first: dict[str, int] = {}
    own = np.array([first.setdefault(text, len(first)) for text in texts])
    _, kept = np.unique(own, return_index=True)
    distinct = unit(passages[kept])
    found = np.empty(len(queries))
    for start in range(0, len(queries), _BLOCK):
        part = slice(start, start + _BLOCK)
        similar = unit(queries[part]) @ distinct.T
        mine = np.take_along_axis(similar, own[part, None], axis=1)
        found[part] = 1 + (similar > mine).sum(axis=1)
    return found


def nearest(vectors: Vectors, count: int) -> NDArray[np.int64]:
    """Return the places of the nearest other vectors, nearest first."""
    scaled, count = unit(vectors), min(count, len(vectors) - 1)
    found = np.empty((len(vectors), count), np.int64)
    for start in range(0, len(vectors), _BLOCK):
        part = np.arange(start, min(start + _BLOCK, len(vectors)))
        similar = scaled[part] @ scaled.T
        similar[np.arange(len(part)), part] = -np.inf
        best = np.argpartition(-similar, count - 1, axis=1)[:, :count] if count else found[part]
        order = np.argsort(-np.take_along_axis(similar, best, axis=1), axis=1, kind="stable")
        found[part] = np.take_along_axis(best, order, axis=1)
    return found


def compare_vectors(first: Vectors, second: Vectors) -> dict[str, float]:
    """Compare two models' vectors of the same texts.

    Returns:
        `neighbours`: the share of the second model's ten nearest texts that are also the first one's.
        `cosine`: the mean cosine of both vectors of a text, if they have the same width.
    """
    near = [nearest(one, NEIGHBOURS) for one in (first, second)]
    kept = [len(set(one) & set(other)) / max(1, len(other)) for one, other in zip(*near, strict=True)]
    found = {"neighbours": float(np.mean(kept))}
    if first.shape == second.shape:
        found["cosine"] = float(cosines(first, second).mean())
    return found


def _spearman(outcomes: Outcomes) -> float:
    """Return the rank correlation of cosines and scores."""
    return spearman(outcomes[:, :2])


def _pearson(outcomes: Outcomes) -> float:
    """Return the linear correlation of cosines and scores."""
    return pearson(outcomes[:, :2])


def average_precision(outcomes: Outcomes) -> float:
    """Return the average precision of pairs ordered by cosine; those with a score above 0 are right."""
    right = outcomes[:, 1] > 0
    if not right.any():
        return 0.0
    return float(sklearn.metrics.average_precision_score(right, outcomes[:, 0]))


def mrr_at_10(outcomes: Outcomes) -> float:
    """Return the mean of 1 / rank over pairs with a score above 0; 0 for ranks beyond 10."""
    return _mean_over_right(outcomes, np.where(outcomes[:, 2] <= 10, 1 / outcomes[:, 2], 0.0))


def ndcg_at_10(outcomes: Outcomes) -> float:
    """Return the mean of 1 / log2(1 + rank), with one right text per query; 0 for ranks beyond 10."""
    return _mean_over_right(outcomes, np.where(outcomes[:, 2] <= 10, 1 / np.log2(1 + outcomes[:, 2]), 0.0))


def recall_at_100(outcomes: Outcomes) -> float:
    """Return the share of pairs with a score above 0 whose second text is among the first 100."""
    return _mean_over_right(outcomes, (outcomes[:, 2] <= 100).astype(np.float64))


def _mean_over_right(outcomes: Outcomes, gains: NDArray[np.float64]) -> float:
    right = outcomes[:, 1] > 0
    return float(gains[right].mean()) if right.any() else 0.0


RANK_METRICS: Mapping[str, Metric] = {
    function.__name__: function for function in (mrr_at_10, ndcg_at_10, recall_at_100)
}
VECTOR_METRICS: Mapping[str, Metric] = {
    "spearman": _spearman,
    "pearson": _pearson,
    "average_precision": average_precision,
    **RANK_METRICS,
}


def find_vector_metric(name: str) -> Metric:
    """Look up a metric of pairs of vectors."""
    if name not in VECTOR_METRICS:
        raise RecipeError(
            f"metric must be one of {', '.join(VECTOR_METRICS)}; got {name!r}."
            f"{did_you_mean(name, VECTOR_METRICS)}"
        )
    return VECTOR_METRICS[name]
