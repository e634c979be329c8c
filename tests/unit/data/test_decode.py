from __future__ import annotations

import numpy as np
import pytest

from understudy.data.decode import MAX_ANSWER_TOKENS, best_answer, sigmoid, word_tags


def window(start: list[float], end: list[float], inside: list[bool] | None = None):
    inside = inside or [False] + [True] * (len(start) - 1)
    starts = [index * 10 if ok else -1 for index, ok in enumerate(inside)]
    ends = [index * 10 + 5 if ok else -1 for index, ok in enumerate(inside)]
    return np.array(start), np.array(end), starts, ends


def test_the_best_span_starts_before_it_ends() -> None:
    # Alone, the best start is token 3 and the best end token 1; together 1–2 (2 + 3) wins.
    answer = best_answer([window([0, 2, 0, 5], [0, 6, 3, -9])])
    assert (answer.start, answer.end, answer.score) == (10, 15, 8.0)
    answer = best_answer([window([0, 2, 0, 5], [0, -9, 3, -9])])
    assert (answer.start, answer.end, answer.score) == (10, 25, 5.0)


def test_tokens_outside_the_context_are_no_answer() -> None:
    answer = best_answer([window([9, 9, 1, 2], [9, 9, 1, 2], [False, False, True, True])])
    assert (answer.start, answer.end) == (30, 35)


def test_the_best_window_wins_and_the_lowest_null_counts() -> None:
    answer = best_answer([window([3, 1], [3, 1]), window([-1, 4], [-1, 4])])
    assert (answer.score, answer.null_score) == (8.0, -2.0)
    assert not answer.is_null()
    assert answer.is_null(threshold=-11.0)


def test_no_answer_needs_more_than_the_threshold() -> None:
    answer = best_answer([window([5, 1], [5, 1])])
    assert answer.null_score - answer.score == 8.0
    assert answer.is_null(threshold=7.9)
    assert not answer.is_null(threshold=8.0)


def test_padding_is_never_chosen() -> None:
    start, end, starts, ends = window([0, 1, 2], [0, 1, 2])
    padded = np.append(start, [99, 99]), np.append(end, [99, 99]), starts, ends
    assert best_answer([padded]) == best_answer([(start, end, starts, ends)])


def test_answers_are_not_too_long() -> None:
    size = MAX_ANSWER_TOKENS + 2
    start = np.zeros(size)
    end = np.zeros(size)
    start[1], end[size - 1] = 10, 10
    answer = best_answer([window(start.tolist(), end.tolist())])
    assert answer.score == 10.0


def test_words_without_a_piece_are_outside() -> None:
    logits = np.array([[0, 0, 9], [0, 9, 0], [9, 0, 0]])
    assert word_tags(logits, [-1, 0, -1], num_words=3, outside=2) == [1, 2, 2]


def test_probabilities_of_single_logits() -> None:
    logits = np.array([[-1e4, -np.log(3), 0.0, np.log(3), 1e4]], dtype=np.float32)
    assert sigmoid(logits)[0].tolist() == pytest.approx([0.0, 0.25, 0.5, 0.75, 1.0])
    assert sigmoid(logits)[0, 2] == 0.5
