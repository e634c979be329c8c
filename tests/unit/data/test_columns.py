from __future__ import annotations

import pytest

from understudy.data.columns import guess_columns
from understudy.errors import DataError
from understudy.kinds import get_kind


def test_usual_names_are_found() -> None:
    columns, guessed = guess_columns(get_kind("classification"), {}, ["id", "Review", "Sentiment"], "a.csv")
    assert columns == {"text": "Review", "label": "Sentiment"}
    assert guessed


def test_pairs_are_found() -> None:
    columns, _ = guess_columns(get_kind("classification"), {}, ["premise", "hypothesis", "label"], "a.csv")
    assert columns == {"text": "premise", "text_pair": "hypothesis", "label": "label"}


def test_of_two_columns_the_other_one_is_text() -> None:
    columns, _ = guess_columns(get_kind("classification"), {}, ["blurb", "label"], "a.csv")
    assert columns == {"text": "blurb", "label": "label"}


def test_own_names_are_no_guess() -> None:
    assert guess_columns(get_kind("classification"), {}, ["text", "label"], "a.csv")[1] is False


def test_a_given_text_is_not_joined_by_a_guessed_pair() -> None:
    columns, _ = guess_columns(
        get_kind("classification"), {"text": "sentence1"}, ["sentence1", "sentence2", "label"], "a"
    )
    assert columns == {"text": "sentence1", "label": "label"}


def test_what_cannot_be_told_is_asked_for() -> None:
    with pytest.raises(DataError, match=r"a\.csv: cannot tell which column is text and label.*'p', 'q', 'r'"):
        guess_columns(get_kind("classification"), {}, ["p", "q", "r"], "a.csv")


def test_a_given_column_must_exist() -> None:
    with pytest.raises(
        DataError, match=r"no column 'txt' for text; there are 'body', 'label'.*data\.columns\.text"
    ):
        guess_columns(get_kind("classification"), {"text": "txt"}, ["body", "label"], "a.csv")


def test_a_column_with_almost_that_name_is_named() -> None:
    kind = get_kind("classification")
    with pytest.raises(DataError, match=r"there are 'Review', 'label'\. Did you mean 'Review'\? Name"):
        guess_columns(kind, {"text": "revew"}, ["Review", "label"], "a.csv")
    with pytest.raises(DataError, match=r"Say it: --text texts --label NAME \(in"):
        guess_columns(kind, {}, ["id", "texts", "note"], "a.csv")
