from __future__ import annotations

from typing import Any

import pytest

from understudy.errors import DataError
from understudy.kinds import get_rows
from understudy.kinds.given import MAX_CHARACTERS

PAIR, QUESTION, CHOICE = ("text", "text_pair"), ("question", "context"), ("context", "question", "choices")


@pytest.mark.parametrize(
    ("given", "kind", "fields", "expected"),
    [
        ("a", "classification", ("text",), {"text": "a"}),
        (("a", "b"), "classification", PAIR, {"text": "a", "text_pair": "b"}),
        ({"text": "a", "text_pair": ""}, "regression", PAIR, {"text": "a", "text_pair": ""}),
        (["q", "c"], "question-answering", QUESTION, {"question": "q", "context": "c"}),
        (("c", "q", "x", "y"), "multiple-choice", CHOICE,
         {"context": "c", "question": "q", "choices": ["x", "y"]}),
        (("c", "q", ["x", "y"]), "multiple-choice", CHOICE,
         {"context": "c", "question": "q", "choices": ["x", "y"]}),
        ({"context": "c", "choices": ["x"]}, "multiple-choice", CHOICE,
         {"context": "c", "question": "", "choices": ["x"]}),
        ("Anna's cat.", "token-classification", ("words",),
         {"text": "Anna's cat."}),
        ({"words": ["a", "b"]}, "token-classification", ("words",),
         {"words": ["a", "b"]}),
    ],
)  # fmt: skip
def test_what_a_caller_may_give(given: Any, kind: Any, fields: Any, expected: Any) -> None:
    assert get_rows(kind).parse(given, fields) == expected


@pytest.mark.parametrize(
    ("given", "kind", "fields", "message"),
    [
        (3, "classification", ("text",), "a row must be a string, a tuple or a mapping of text; got int"),
        (None, "classification", ("text",), "got NoneType"),
        (b"a", "classification", ("text",), "got bytes"),
        ("a", "classification", PAIR, "must have text and text_pair; text_pair is missing"),
        (("a",), "classification", PAIR, r"must have 2 texts \(text, text_pair\); got 1"),
        ({"text": "a", "label": 1}, "classification", ("text",), "nothing else; got text, label"),
        ({"text": 3}, "classification", ("text",), "text must be a string; got int"),
        ({"text": "ok \ud83d"}, "classification", ("text",), "half of a surrogate pair at character 3"),
        ({"text": "x" * (MAX_CHARACTERS + 1)}, "classification", ("text",), "at most 2,000,000 characters"),
        ({"context": "c", "choices": []}, "multiple-choice", CHOICE, "choices must have one at least"),
        ({"context": "c", "choices": "xy"}, "multiple-choice", CHOICE, "choices must be a list of strings"),
        (("c", "q"), "multiple-choice", CHOICE, "must have 3 texts"),
        ({"words": ["a", 3]}, "token-classification", ("words",), "words must be a string; got int"),
        ({"words": ["x" * 1000] * 2001}, "token-classification", ("words",), "characters together"),
        ({}, "token-classification", ("words",), "text must be a string; got NoneType"),
    ],
)  # fmt: skip
def test_what_is_refused_with_its_reason(given: Any, kind: Any, fields: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        get_rows(kind).parse(given, fields)
