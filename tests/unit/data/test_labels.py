from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.data.labels import check_labels, join_labels, named_labels, split_labels
from understudy.errors import ModelError


def test_unnamed_labels_are_none() -> None:
    assert named_labels({0: "LABEL_0", 1: "LABEL_1"}) is None
    assert named_labels({1: "b", 0: "a"}) == ("a", "b")


def test_case_and_separators_do_not_matter() -> None:
    agreed = check_labels("m", ["ENTAILMENT", "Not Entailment"], 2, ["entailment", "not_entailment"])
    assert agreed == ("ENTAILMENT", "Not Entailment")


def test_unnamed_labels_are_taken_by_number() -> None:
    assert check_labels("m", None, 2, ["negative", "positive"]) == ("negative", "positive")


def test_another_order_is_an_error_that_shows_both_and_the_way_out() -> None:
    with pytest.raises(ModelError) as error:
        check_labels(
            "roberta-mnli",
            ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"],
            3,
            ["entailment", "neutral", "contradiction"],
        )
    message = str(error.value)
    assert "roberta-mnli" in message
    assert " 0  CONTRADICTION            entailment" in message
    assert """--set 'data.labels=["contradiction", "neutral", "entailment"]'""" in message


@pytest.mark.parametrize(("model_labels", "number"), [(["a", "b", "c"], 3), (None, 3), (["a", "x"], 2)])
def test_other_labels_are_an_error(model_labels: list[str] | None, number: int) -> None:
    with pytest.raises(ModelError, match="must agree in names and order"):
        check_labels("m", model_labels, number, ["a", "b"])


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("sport;politics", ["sport", "politics"]),
        (" sport ; politics;", ["sport", "politics"]),
        ("", []),
        (" ", []),
        ("[]", []),
        ('["sport", "a; b"]', ["sport", "a; b"]),
        ("[1, 2]", [1, 2]),
        ("[sic]", ["[sic]"]),
        ("a, b", ["a, b"]),
    ],
)
def test_labels_of_a_cell(cell: str, expected: list[object]) -> None:
    assert split_labels(cell) == expected


@given(st.lists(st.text(st.sampled_from('ab;[]", '), min_size=1).map(str.strip).filter(bool)))
def test_a_written_cell_is_read_as_it_was(names: list[str]) -> None:
    assert split_labels(join_labels(names)) == names


def test_a_misspelt_label_is_named() -> None:
    with pytest.raises(ModelError, match=r"The data's 'postive' may be the model's 'POSITIVE'\."):
        check_labels("m", ["NEGATIVE", "POSITIVE"], 2, ["negative", "positive", "postive"])
