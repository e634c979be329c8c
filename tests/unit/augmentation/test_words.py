from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.augmentation.words import find_words, is_word, load_stop_words, match_case, put_words
from understudy.errors import RecipeError

ENGLISH = load_stop_words("english")


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in find_words(text, ENGLISH)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The film isn't bad, it is good.", ["film", "bad", "good"]),
        ("U2 sold 3 well-known albums_1", ["sold"]),
        ("", []),
        ("x y 12 -- !", []),
        ("Die Straße führt über Köln", ["Die", "Straße", "führt", "über", "Köln"]),
        ("राम घर गया", ["राम", "घर", "गया"]),
        ("cafe\u0301 noir", ["cafe\u0301", "noir"]),
    ],
)
def test_words_that_may_be_replaced(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text(max_size=60))
def test_spans_are_words_in_order_and_putting_them_back_changes_nothing(text: str) -> None:
    spans = find_words(text, ENGLISH)
    assert all(is_word(text[start:end]) for start, end in spans)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))
    assert put_words(text, [(span, text[slice(*span)]) for span in spans]) == text


@given(st.text(max_size=60), st.data())
def test_what_is_not_replaced_stays_to_the_letter(text: str, data: st.DataObject) -> None:
    spans = find_words(text, ENGLISH)
    chosen = [span for span in spans if data.draw(st.booleans())]
    changed = put_words(text, [(span, "§") for span in chosen])
    kept = put_words(text, [(span, "") for span in chosen])
    assert changed.replace("§", "") == kept.replace("§", "")


def test_case_goes_with_the_word() -> None:
    assert match_case("rome", "Paris") == "Rome"
    assert match_case("rome", "PARIS") == "ROME"
    assert match_case("McDonald", "paris") == "McDonald"
    assert match_case("rome", "paris") == "rome"


def test_stop_words_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("der\nDie\n", "utf-8")
    assert load_stop_words(str(tmp_path / "words.txt")) == {"der", "die"}
    assert load_stop_words("none") == frozenset()
    with pytest.raises(RecipeError, match=r"augment\.stop_words must be english, none or a text file"):
        load_stop_words(str(tmp_path / "other.txt"))
