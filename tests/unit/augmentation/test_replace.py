"""Algorithm 1 against a plain reference, on the same random stream."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from understudy.augmentation.replace import Question, draw
from understudy.augmentation.run import augment_rows, make_variants, plan_attempts
from understudy.augmentation.settings import AugmentSettings
from understudy.augmentation.words import load_stop_words, put_words
from understudy.kinds import get_kind

VOCABULARY = ["alpha", "beta", "gamma", "delta", "McCoy", "NATO", "omega"]
TEXTS = [
    "The Film was  GOOD, and it's well-made; 3 actors ran.",
    "nothing",
    "He's 7!",
    "bad bad film film",
    "“Quoted” words — and\ttabs\nstay",
]


def offered(text: str, start: int) -> list[str]:
    """Candidates that depend on the whole text and on the place, as a model's do; sometimes none."""
    number = int(hashlib.sha256(f"{text}|{start}".encode()).hexdigest(), 16)
    count = number % 5
    return [VOCABULARY[(number >> (3 * k)) % len(VOCABULARY)] for k in range(count)]


def ask(questions: Iterable[Question]) -> dict[Question, Sequence[str]]:
    return {question: offered(question.text, question.span[0]) for question in questions}


def offer(words: list[str], place: int) -> list[str]:
    return offered("".join(words), len("".join(words[:place])))


@pytest.mark.parametrize("context", ["original", "sequential"])
@pytest.mark.parametrize("probability", [0.4, 1.0])
@given(text=st.one_of(st.sampled_from(TEXTS), st.text("abAB c.,'-", max_size=40)), row=st.integers(0, 10**9))
def test_both_readings_are_those_of_the_reference(
    text: str, row: int, context: str, probability: float
) -> None:
    settings = AugmentSettings(context=context, probability=probability, variants=6)
    attempts = plan_attempts(
        {"row": row, "text": text, "label": "x"}, get_kind("classification"), settings, seed=3
    )
    found = [
        put_words(text, [(one.span, one.new) for one in variant])
        for variant in make_variants(attempts, settings, ask)
    ]
    stop_words = load_stop_words("english")
    places = sum(reference.may_be_replaced(part, stop_words) for part in reference.split(text))
    expected = reference.augment(
        text,
        offer,
        draw(3, row, 6, places),
        probability=probability,
        num_variants=6,
        stop_words=stop_words,
        sequential=context == "sequential",
    )
    assert found == (expected if places else [])


def rows(count: int) -> list[dict[str, Any]]:
    texts = [
        f"the good film number {chr(97 + n % 26) * 3} was slow and awful but great" for n in range(count)
    ]
    return [{"row": n, "text": text, "label": "x"} for n, text in enumerate(texts)]


def always(questions: Iterable[Question]) -> dict[Question, Sequence[str]]:
    return {question: ["alpha", "beta", "gamma"] for question in questions}


def test_the_share_of_replaced_words_is_the_probability() -> None:
    written, _ = augment_rows(rows(200), get_kind("classification"), AugmentSettings(variants=5), 1, always)
    attempts = [
        attempt
        for row in rows(200)
        for attempt in plan_attempts(row, get_kind("classification"), AugmentSettings(variants=5), 1)
    ]
    variants = make_variants(attempts, AugmentSettings(variants=5), always)
    replaced, places = sum(map(len, variants)), sum(len(attempt.side.places) for attempt in attempts)
    interval = binomtest(replaced, places).proportion_ci(0.999)
    assert interval.low < 0.4 < interval.high
    assert {one["new"] for row in written for one in row["replaced"]} == {"alpha", "beta", "gamma"}


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8, unique=True))
def test_a_row_becomes_the_same_whatever_stands_beside_it(chosen: list[int]) -> None:
    settings = AugmentSettings(variants=4)
    whole, _ = augment_rows(rows(31), get_kind("classification"), settings, 1, ask)
    part, _ = augment_rows([rows(31)[n] for n in chosen], get_kind("classification"), settings, 1, ask)
    assert part == [row for n in chosen for row in whole if row["source_row"] == n]


def test_seeds_and_rows_have_streams_of_their_own() -> None:
    assert np.array_equal(draw(1, 2, 3, 4), draw(1, 2, 3, 4))
    assert not np.array_equal(draw(1, 2, 3, 4), draw(2, 2, 3, 4))
    assert not np.array_equal(draw(1, 2, 3, 4), draw(1, 3, 3, 4))


def test_unchanged_and_repeated_variants_are_dropped_and_counted() -> None:
    row = {"row": 0, "text": "the film", "label": "x"}

    def one(questions: Iterable[Question]) -> dict[Question, Sequence[str]]:
        return {key: ["movie"] for key in questions}

    written, counts = augment_rows([row], get_kind("classification"), AugmentSettings(variants=20), 0, one)
    assert [row["text"] for row in written] == ["the film", "the movie"]
    assert written[0]["variant"] is None
    assert written[1]["replaced"] == [{"start": 4, "old": "film", "new": "movie"}]
    assert counts["tried"] == 20
    assert counts["unchanged"] + counts["duplicates"] == 19
    assert counts["unchanged"] > 0 < counts["duplicates"]


def test_each_question_is_asked_once_of_an_original_text() -> None:
    asked: list[Question] = []

    def counting(questions: Iterable[Question]) -> dict[Question, Sequence[str]]:
        asked.extend(questions)
        return always(questions)

    augment_rows(rows(5), get_kind("classification"), AugmentSettings(variants=20), 0, counting)
    assert len(asked) == len(set(asked)) == 5 * 7
