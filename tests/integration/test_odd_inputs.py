"""Ten thousand odd inputs: an answer or a clear error, never a crash, in bounded memory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from exported import fine_tune
from hypothesis import strategies as st

import understudy
from understudy.errors import DataError
from understudy.predictor import Predictor
from understudy.timing.machine import peak_memory

KINDS = ("classification", "squad2", "multiple-choice", "token-classification")
# Each kind has its share of the ten thousand.
EXAMPLES = 2_500
ODD = st.one_of(
    st.just(""),
    st.characters(),  # lone surrogates among them
    st.text(st.characters(), max_size=40),
    st.text("\u200f\u202e\u05d0\u0627\u0634 ", max_size=30),  # from right to left
    st.text("🙂👩\u200d🚀🏳\ufe0f\u0301", max_size=20),
    st.text("\x00\x01\x07\x1b\x7f\ufffe\n\t\r", max_size=20),
    st.integers(1, 5_000).map(lambda count: " " * count + "a"),
    st.integers(1, 3_000).map(lambda count: "good " * count),
    st.integers(1, 5_000).map(lambda count: "x" * count),
    st.text("\ud800\udfff a", max_size=6),
)


@pytest.fixture(scope="module")
def predictors(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Predictor]:
    made = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        model = fine_tune(encoder, kind, folder, steps=2)
        understudy.export(model, output_dir=folder / "out", tolerance=100.0, speed=False)
        made[kind] = Predictor(folder / "out", threads=1)
    return made


def rows_of(kind: str) -> st.SearchStrategy[Any]:
    if kind == "classification":
        return ODD
    if kind == "squad2":
        return st.tuples(ODD, ODD)
    if kind == "multiple-choice":
        return st.fixed_dictionaries(
            {"context": ODD, "question": ODD, "choices": st.lists(ODD, min_size=1, max_size=3)}
        )
    return ODD | st.fixed_dictionaries({"words": st.lists(ODD, max_size=5)})


def is_text(row: Any) -> bool:
    """Whether all of a row can be written as UTF-8."""
    if isinstance(row, str):
        return not any("\ud800" <= character <= "\udfff" for character in row)
    return all(map(is_text, row.values() if isinstance(row, dict) else row))


def check(answer: dict[str, Any]) -> None:
    """An answer is finite, and its spans lie in order."""
    for value in answer.values():
        if isinstance(value, float):
            assert math.isfinite(value)
    probabilities = answer.get("probabilities")
    if probabilities is not None:
        values = probabilities.values() if isinstance(probabilities, dict) else probabilities
        assert sum(values) == pytest.approx(1)
    assert answer.get("start", 0) <= answer.get("end", 0)
    for one in answer.get("entities", ()):
        assert one["start"] < one["end"]
        assert 0 <= one["score"] <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_or_a_clear_error(kind: str, predictors: dict[str, Predictor]) -> None:
    predict = predictors[kind]
    before = peak_memory()
    seen = {"answers": 0, "errors": 0}

    @hypothesis.settings(
        max_examples=EXAMPLES, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(rows_of(kind))
    def run(row: Any) -> None:
        if is_text(row):
            check(predict(row))
            seen["answers"] += 1
        else:
            with pytest.raises(DataError, match="surrogate"):
                predict(row)
            seen["errors"] += 1

    run()
    assert seen["answers"] + seen["errors"] >= EXAMPLES
    assert min(seen.values()) > 0
    assert peak_memory() - before < 300e6


@pytest.mark.parametrize("kind", ["classification", "squad2", "token-classification"])
def test_a_megabyte_is_read_in_bounded_memory(kind: str, predictors: dict[str, Predictor]) -> None:
    predict = predictors[kind]
    text = "the good film was in paris . " * 36_000
    assert len(text) > 1_000_000
    predict(("who", text[:100_000]) if kind == "squad2" else text[:1000])
    before = peak_memory()
    check(predict(("who", text) if kind == "squad2" else text))
    assert peak_memory() - before < 1.5e9
    if kind == "classification":  # eight of them one after the other, not all at once
        one = peak_memory()
        assert all("label" in answer for answer in predict([text] * 8))
        assert peak_memory() - one < 300e6
