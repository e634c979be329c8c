"""Cosines, ranks and neighbours, by hand and against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from understudy.errors import RecipeError
from understudy.evaluation.vectors import (
    compare_vectors,
    cosines,
    find_vector_metric,
    nearest,
    ranks,
    unit,
)

# cosine, score, rank of the second text
OUTCOMES = np.array([[0.9, 1, 1], [0.8, 0, 2], [0.7, 1, 4], [0.1, 1, 11], [0.0, 0, 1]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mrr_at_10", (1 + 1 / 4 + 0) / 3),
        ("ndcg_at_10", (1 + 1 / math.log2(5) + 0) / 3),
        ("recall_at_100", 1.0),
        # Right ones are 1st, 3rd and 4th by cosine.
        ("average_precision", (1 / 1 + 2 / 3 + 3 / 4) / 3),
        # Ranks of cosines 5 4 3 2 1, of scores 4 1.5 4 4 1.5.
        ("spearman", np.corrcoef([5, 4, 3, 2, 1], [4, 1.5, 4, 4, 1.5])[0, 1]),
        ("pearson", np.corrcoef([0.9, 0.8, 0.7, 0.1, 0.0], [1, 0, 1, 1, 0])[0, 1]),
    ],
)
def test_metrics(name: str, expected: float) -> None:
    assert find_vector_metric(name)(OUTCOMES) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["mrr_at_10", "ndcg_at_10", "recall_at_100", "average_precision"])
def test_without_a_right_pair_there_is_nothing_to_find(name: str) -> None:
    assert find_vector_metric(name)(np.array([[0.5, 0.0, 1.0]])) == 0.0


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"one of spearman.*; got 'accuracy'"):
        find_vector_metric("accuracy")


def test_ranks_count_each_text_once() -> None:
    queries = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1]])
    passages = np.array([[1.0, 0.2], [1.0, 0.0], [1.0, 0.0]])
    # The second and third passage are the same text, nearest to the first query and last for the second.
    assert ranks(queries, passages, ["a", "b", "b"]).tolist() == [2.0, 2.0, 1.0 + 1.0]
    assert ranks(queries, passages, ["a", "b", "c"]).tolist() == [3.0, 2.0, 2.0]


def test_ranks_and_neighbours_equal_plain_loops() -> None:
    random = np.random.default_rng(0)
    queries, passages = random.normal(size=(2_100, 8)), random.normal(size=(2_100, 8))  # more than one block
    similar = unit(queries) @ unit(passages).T
    found = ranks(queries, passages, [str(place) for place in range(2_100)])
    for place in (0, 1_023, 1_024, 2_099):
        assert found[place] == 1 + sum(value > similar[place, place] for value in similar[place])
    near = nearest(queries, 3)
    own = unit(queries) @ unit(queries).T
    for place in (0, 1_023, 1_024, 2_099):
        order = [other for other in np.argsort(-own[place], kind="stable") if other != place]
        assert near[place].tolist() == order[:3]


def test_closeness() -> None:
    random = np.random.default_rng(0)
    vectors = random.normal(size=(40, 6))
    assert compare_vectors(vectors, 3 * vectors) == {"neighbours": 1.0, "cosine": pytest.approx(1.0)}
    wider = np.concatenate([vectors, np.zeros((40, 2))], axis=1)
    assert compare_vectors(wider, vectors) == {"neighbours": 1.0}  # no cosine between widths
    strangers = compare_vectors(random.normal(size=(40, 6)), vectors)
    assert strangers["neighbours"] < 0.5
    assert cosines(np.zeros((1, 2)), np.ones((1, 2))).tolist() == [0.0]
