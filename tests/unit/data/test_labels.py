from __future__ import annotations

import pytest

from understudy.data.labels import check_labels, named_labels
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
