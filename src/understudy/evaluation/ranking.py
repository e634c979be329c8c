"""Score rankings: each query has the outcomes [nDCG@10, reciprocal rank at 10], so samples draw queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import sklearn.metrics
from numpy.typing import NDArray

from understudy.data.queries import group_rows
from understudy.errors import RecipeError, did_you_mean
from understudy.evaluation.metrics import Metric, Outcomes

DEPTH = 10
RELEVANT = 0.5


def rank_outcomes(
    queries: Sequence[str], scores: NDArray[np.float64], labels: NDArray[np.float64]
) -> Outcomes:
    """Return nDCG@10 and the reciprocal rank of the first relevant passage, for each query.

    Labels are the gains of nDCG. A passage is relevant if its label is 0.5 or more, or the query's highest.
    Ties: nDCG is the mean over all orders of passages with equal scores, and a relevant passage counts as
    ranked below the others with its score.
    """
    found = []
    for group in group_rows(queries, labels):
        gains, given = labels[group], scores[group].astype(np.float64)
        ndcg = sklearn.metrics.ndcg_score([gains], [given], k=DEPTH)
        right = gains >= min(RELEVANT, gains.max())
        rank = 1 + (given[~right] >= given[right].max()).sum()
        found.append((ndcg, 1 / rank if rank <= DEPTH else 0.0))
    return np.array(found, dtype=np.float64).reshape(-1, 2)


def ndcg_at_10(outcomes: Outcomes) -> float:
    """Return the mean of the queries' nDCG@10; 0 if there are none."""
    return float(outcomes[:, 0].mean()) if len(outcomes) else 0.0


def mrr_at_10(outcomes: Outcomes) -> float:
    """Return the mean of 1 / rank of the first relevant passage; 0 for ranks beyond 10."""
    return float(outcomes[:, 1].mean()) if len(outcomes) else 0.0


RANK_METRICS: Mapping[str, Metric] = {function.__name__: function for function in (ndcg_at_10, mrr_at_10)}


def find_rank_metric(name: str) -> Metric:
    """Look up a metric of rankings."""
    if name not in RANK_METRICS:
        raise RecipeError(
            f"metric must be one of {', '.join(RANK_METRICS)}; got {name!r}."
            f"{did_you_mean(name, RANK_METRICS)}"
        )
    return RANK_METRICS[name]
