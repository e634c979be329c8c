"""Cases computed by hand from the definitions of SQuAD's official scripts."""

from __future__ import annotations

import pytest

from understudy.evaluation.squad import answer_exact, answer_f1, normalize_answer, score_answer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Cat", "cat"),
        ("a  cat,  an apple and the end.", "cat apple and end"),
        ("U.S.A.", "usa"),
        ("cat's", "cats"),
        ("theatre", "theatre"),  # "the" only as a word
        ("the-cat", "thecat"),  # punctuation goes before articles, so this is one word
        ("  ", ""),
        ("the", ""),
        ("…", "…"),  # only ASCII punctuation is taken out
        ("Ünïcode", "ünïcode"),
    ],
)
def test_normalisation(text: str, expected: str) -> None:
    assert normalize_answer(text) == expected


def test_exact_match_ignores_articles_punctuation_and_case() -> None:
    assert answer_exact("The Eiffel Tower!", "eiffel tower") == 1.0
    assert answer_exact("Eiffel", "Eiffel Tower") == 0.0


def test_f1_of_part_of_the_words() -> None:
    # 2 words in common: precision 2/3, recall 2/2, F1 = 2 · (2/3) · 1 / (5/3) = 0.8
    assert answer_f1("big red cat", "red cat") == pytest.approx(0.8)


def test_f1_counts_repeated_words_as_often_as_both_have_them() -> None:
    # common: "no" twice; precision 2/3, recall 2/2
    assert answer_f1("no no no", "no no") == pytest.approx(0.8)


def test_f1_without_common_words() -> None:
    assert answer_f1("cat", "dog") == 0.0


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"), [("", "", 1.0), ("cat", "", 0.0), ("", "cat", 0.0)]
)
def test_empty_answers(prediction: str, gold: str, expected: float) -> None:
    assert answer_f1(prediction, gold) == expected
    assert answer_exact(prediction, gold) == expected


def test_an_answer_of_articles_alone_is_empty() -> None:
    assert answer_f1("the", "") == 1.0


def test_the_best_of_several_gold_answers_counts() -> None:
    # against "Paris, France" 1 of 2 words: F1 2/3; against "Paris" exact.
    for version_2 in (False, True):
        assert score_answer("paris", ["Paris, France", "Paris"], unanswerable=version_2) == (1.0, 1.0)
        exact, f1 = score_answer("paris", ["Paris, France", "Lyon"], unanswerable=version_2)
        assert (exact, f1) == (0.0, pytest.approx(2 / 3))


def test_a_question_without_gold_answers_wants_none() -> None:
    assert score_answer("", [], unanswerable=True) == (1.0, 1.0)
    assert score_answer("Paris", [], unanswerable=True) == (0.0, 0.0)


def test_version_2_leaves_gold_answers_of_articles_alone_out() -> None:
    # "the" normalises to nothing and is left out, "Hague" remains.
    assert score_answer("", ["the", "The Hague"], unanswerable=True) == (0.0, 0.0)
    assert score_answer("Hague", ["the", "The Hague"], unanswerable=True) == (1.0, 1.0)


def test_version_1_counts_them_and_gives_answers_without_a_word_no_f1() -> None:
    # Its script compares normalised texts for exact match, and words in common for F1: there are none.
    assert score_answer("A", ["A", "the letter A"], unanswerable=False) == (1.0, 0.0)
