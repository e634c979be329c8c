from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from understudy.data.decode import entities, softmax

TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-LOC", "S-PER", "E-PER", "S-LOC"]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ([], []),
        (["O", "O"], []),
        (["I-PER", "I-PER"], [("PER", 0, 1)]),
        (["B-PER", "B-PER"], [("PER", 0, 0), ("PER", 1, 1)]),
        (["B-PER", "I-LOC"], [("PER", 0, 0), ("LOC", 1, 1)]),
        (["B-LOC", "E-LOC", "I-LOC"], [("LOC", 0, 1), ("LOC", 2, 2)]),
        (["S-PER", "I-PER"], [("PER", 0, 0), ("PER", 1, 1)]),
        (["PER", "PER", "O", "LOC"], [("PER", 0, 1), ("LOC", 3, 3)]),
    ],
)
def test_entities_by_hand(tags: list[str], expected: list[tuple[str, int, int]]) -> None:
    assert entities(tags) == expected


@given(st.lists(st.sampled_from(TAGS), max_size=12))
def test_entities_are_those_that_are_scored(tags: list[str]) -> None:
    assert entities(tags) == [tuple(one) for one in get_entities(tags)]


def test_softmax_by_hand_and_of_large_logits() -> None:
    assert softmax(np.array([0.0, np.log(3.0)])).tolist() == pytest.approx([0.25, 0.75])
    assert softmax(np.array([[1e4, 0.0]], np.float32)).tolist() == [[1.0, 0.0]]
