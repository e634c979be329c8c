"""Scores of rankings, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from understudy.errors import RecipeError
from understudy.evaluation.bootstrap import estimate
from understudy.evaluation.ranking import find_rank_metric, group_rows, mrr_at_10, ndcg_at_10, rank_outcomes


def outcomes(*rows: tuple[str, float, float]) -> np.ndarray:
    queries, scores, labels = zip(*rows, strict=True)
    return rank_outcomes(queries, np.array(scores), np.array(labels))


def test_a_relevant_passage_in_second_place() -> None:
    found = outcomes(("q", 0.9, 0), ("q", 0.8, 1), ("q", 0.1, 0))
    assert found[0].tolist() == pytest.approx([1 / math.log2(3), 0.5])


def test_labels_are_gains() -> None:
    found = outcomes(("q", 3, 1), ("q", 2, 2), ("q", 1, 0))
    expected = (1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))
    assert found[0].tolist() == pytest.approx([expected, 1.0])


def test_queries_are_scored_by_themselves_wherever_their_rows_are() -> None:
    found = outcomes(("q", 0.9, 1), ("r", 0.1, 1), ("q", 0.5, 0), ("r", 0.8, 0))
    assert found[:, 1].tolist() == [1.0, 0.5]
    assert mrr_at_10(found) == 0.75
    assert ndcg_at_10(found) == pytest.approx((1 + 1 / math.log2(3)) / 2)


def test_a_constant_score_is_no_ranking() -> None:
    """A file often has the right passage first; a model that says nothing must not profit from that."""
    found = outcomes(("q", 0.5, 1), ("q", 0.5, 0), ("q", 0.5, 0))
    assert found[0].tolist() == pytest.approx([(1 + 1 / math.log2(3) + 0.5) / 3, 1 / 3])


def test_ranks_beyond_ten_count_nothing() -> None:
    rows = [("q", 20.0 - place, 0.0) for place in range(10)]
    assert outcomes(*rows, ("q", 0.0, 1.0))[0].tolist() == [0.0, 0.0]


def test_queries_with_one_label_are_left_out() -> None:
    labels = np.array([1.0, 1.0, 0.0, 1.0, 0.0])
    groups = group_rows(["a", "a", "b", "c", "c"], labels)
    assert [group.tolist() for group in groups] == [[3, 4]]
    nothing = rank_outcomes(["a"], np.array([1.0]), np.array([1.0]))
    assert nothing.shape == (0, 2)
    assert ndcg_at_10(nothing) == mrr_at_10(nothing) == 0.0


def test_probabilities_may_be_labels() -> None:
    found = outcomes(("q", 0.9, 0.3), ("q", 0.8, 0.7))
    assert found[0, 1] == 0.5  # 0.7 is relevant, 0.3 is not
    below = outcomes(("q", 0.9, 0.3), ("q", 0.8, 0.1))
    assert below[0].tolist() == [1.0, 1.0]  # none is relevant by itself: the best one is


def test_intervals_are_over_queries() -> None:
    rows = [(f"q{n}", score, label) for n in range(50) for score, label in ((n % 2, 1), (0.5, 0))]
    found = estimate(ndcg_at_10, outcomes(*rows))
    assert found.low < found.value < found.high


def test_other_metrics_are_refused() -> None:
    with pytest.raises(RecipeError, match="ndcg_at_10, mrr_at_10; got 'accuracy'"):
        find_rank_metric("accuracy")
