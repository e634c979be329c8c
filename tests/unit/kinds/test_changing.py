"""Every kind keeps what it must: answers at their places, tags with their words, labels, other sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from understudy.augmentation.replace import Question
from understudy.augmentation.run import augment_rows
from understudy.augmentation.settings import AugmentSettings
from understudy.augmentation.words import load_stop_words
from understudy.kinds import get_kind

STOP = load_stop_words("english")
WORDS = ["river", "Paris", "old", "the", "runs", "through", "U2", "and", "city", "a", "well-known", ".", ","]


def long_words(questions: Iterable[Question]) -> dict[Question, Sequence[str]]:
    return {key: ["extraordinarily", "so", "considerably"] for key in questions}


def augment(row: dict[str, Any], kind: Any, **settings: Any) -> list[dict[str, Any]]:
    written, _ = augment_rows([row], get_kind(kind), AugmentSettings(**settings), 5, long_words)
    return written


def test_one_side_of_a_pair_changes_at_a_time() -> None:
    row = {"row": 0, "text": "good film", "text_pair": "great movie", "label": "yes"}
    written = augment(row, "classification")
    assert len(written) > 5
    for one in written[1:]:
        other = "text_pair" if one["side"] == "text" else "text"
        assert one[other] == row[other]
        assert one[one["side"]] != row[one["side"]]
    assert {one["side"] for one in written[1:]} == {"text", "text_pair"}
    assert {one["label"] for one in written} == {"yes"}


@given(st.lists(st.sampled_from(WORDS), min_size=3, max_size=25), st.data())
def test_answers_stay_where_they_are_said_to_be(words: list[str], data: st.DataObject) -> None:
    context = " ".join(words)
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, min(first + 3, len(words) - 1)))
    answer = " ".join(words[first : last + 1])
    start = len(" ".join(words[:first])) + (first > 0)
    assert context[start : start + len(answer)] == answer
    answers = {"text": [answer, answer], "answer_start": [start, start]}
    row = {"row": 1, "id": "q", "question": "which river runs?", "context": context, "answers": answers}
    written = augment(row, "question-answering", probability=0.7)
    for one in written:
        for text, place in zip(one["answers"]["text"], one["answers"]["answer_start"], strict=True):
            assert one["context"][place : place + len(text)] == text == answer
    assert len({one["id"] for one in written}) == len(written)


def test_a_question_without_an_answer() -> None:
    row = {
        "row": 1,
        "id": "q",
        "question": "which river?",
        "context": "old city",
        "answers": {"text": [], "answer_start": []},
    }
    assert {one["side"] for one in augment(row, "question-answering")[1:]} == {"question", "context"}


def test_choices_change_and_neither_label_nor_question() -> None:
    row = {
        "row": 2,
        "context": "old city",
        "question": "which city?",
        "choices": ["Rome", "Paris"],
        "label": 1,
    }
    written = augment(row, "multiple-choice")
    assert {one["side"] for one in written[1:]} == {"context", "choices.0", "choices.1"}
    for one in written[1:]:
        assert (one["question"], one["label"], len(one["choices"])) == ("which city?", 1, 2)
        same = [one["context"] == "old city", one["choices"][0] == "Rome", one["choices"][1] == "Paris"]
        assert sum(same) == 2


TAGGED = {
    "row": 3,
    "words": ["Anna", "Smith", "visited", "beautiful", "Rome", "yesterday", "."],
    "tags": ["B-PER", "I-PER", "O", "O", "B-LOC", "O", "O"],
}


def test_tags_stay_with_their_words() -> None:
    written = augment(TAGGED, "token-classification")
    assert len(written) > 3
    for one in written:
        assert one["tags"] == TAGGED["tags"]
        assert len(one["words"]) == len(one["tags"])
        kept = [word for word, tag in zip(one["words"], one["tags"], strict=True) if tag != "O"]
        assert kept == ["Anna", "Smith", "Rome"]


def test_entities_are_swapped_as_wholes() -> None:
    others = {"row": 4, "words": ["Li", "New", "York", "City"], "tags": ["B-PER", "B-LOC", "I-LOC", "I-LOC"]}
    names = get_kind("token-classification").entity_names([TAGGED, others])
    assert names == {"LOC": ("New York City", "Rome"), "PER": ("Anna Smith", "Li")}

    def ask(questions: Iterable[Question]) -> dict[Question, Sequence[str]]:
        return {
            question: [name for name in names[question.entity] if name != question.word]
            if question.entity
            else ["so"]
            for question in questions
        }

    settings = AugmentSettings(entities="swap", probability=1.0, variants=1)
    written, _ = augment_rows([TAGGED], get_kind("token-classification"), settings, 0, ask)
    assert written[1]["words"] == ["Li", "so", "so", "New", "York", "City", "so", "."]
    assert written[1]["tags"] == ["B-PER", "O", "O", "B-LOC", "I-LOC", "I-LOC", "O", "O"]


def test_a_row_with_nothing_to_change_stays_alone() -> None:
    row = {"row": 0, "text": "it is 7 .", "label": "x"}
    assert [side.places for side in get_kind("classification").sides(row, STOP, swap_entities=False)] == [()]
    assert [one["text"] for one in augment(row, "classification")] == ["it is 7 ."]


def test_a_change_leaves_its_row_alone() -> None:
    row = {"row": 0, "context": "old city", "question": "q", "choices": ["Rome", "Paris"], "label": 1}
    kind = get_kind("multiple-choice")
    kind.change(row, kind.sides(row, STOP, swap_entities=False)[1], [])
    assert row["choices"] == ["Rome", "Paris"]
