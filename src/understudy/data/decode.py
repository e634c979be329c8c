"""Turn logits into answers with numpy alone, for evaluation and for processes without torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]

# As in BERT's own script: the number of starts and ends to try, and the longest answer in tokens.
NUM_CANDIDATES = 20
MAX_ANSWER_TOKENS = 30


@dataclass(frozen=True)
class Answer:
    """The best span of a question's windows.

    Attributes:
        start, end: characters of the context; equal if there is no answer at all.
        score: sum of the start and end logits.
        null_score: the lowest such sum at [CLS] over all windows.
    """

    start: int
    end: int
    score: float
    null_score: float

    def is_null(self, threshold: float = 0.0) -> bool:
        """Return whether [CLS] beats the best span by more than the threshold: no answer in SQuAD 2.0."""
        return self.null_score - self.score > threshold


def best_answer(
    windows: Iterable[tuple[FloatArray, FloatArray, Sequence[int], Sequence[int]]],
) -> Answer:
    """Return the best answer over the windows of one question.

    Args:
        windows: for each, start logits, end logits, and the first and last character of each token
            (-1 for tokens outside the context). Logits may be longer than the window (padding).
    """
    best = (-np.inf, 0, 0)
    null_score = np.inf
    for start_logits, end_logits, offset_starts, offset_ends in windows:
        length = len(offset_starts)
        starts_ok = np.asarray(offset_starts) >= 0
        null_score = min(null_score, float(start_logits[0] + end_logits[0]))
        masked_start = np.where(starts_ok, start_logits[:length], -np.inf)
        masked_end = np.where(starts_ok, end_logits[:length], -np.inf)
        starts = np.argsort(-masked_start, kind="stable")[:NUM_CANDIDATES]
        ends = np.argsort(-masked_end, kind="stable")[:NUM_CANDIDATES]
        width = ends[None, :] - starts[:, None]
        scores = masked_start[starts][:, None] + masked_end[ends][None, :]
        scores = np.where((width >= 0) & (width < MAX_ANSWER_TOKENS), scores, -np.inf)
        first, last = np.unravel_index(int(scores.argmax()), scores.shape)
        score = float(scores[first, last])
        if score > best[0]:
            best = (score, int(offset_starts[starts[first]]), int(offset_ends[ends[last]]))
    return Answer(best[1], best[2], best[0], null_score)


def word_tags(logits_LC: FloatArray, word_ids: Sequence[int], num_words: int, outside: int) -> list[int]:
    """Return the tag of each word from the logits of its first token.

    Words cut off by the length limit, or without a token, are `outside`.
    """
    tags = [outside] * num_words
    best = logits_LC[: len(word_ids)].argmax(axis=-1)
    for position, word in enumerate(word_ids):
        if word >= 0:
            tags[word] = int(best[position])
    return tags


def softmax(logits: FloatArray) -> NDArray[np.float64]:
    """Return probabilities over the last axis."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def sigmoid(logits: FloatArray) -> NDArray[np.float64]:
    """Return the probability of each logit on its own; that of 0 is exactly one half.

    >>> sigmoid(np.array([-1000.0, 0.0, 1000.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return np.asarray(np.exp(-np.logaddexp(0.0, -logits.astype(np.float64))))


def entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return type, first and last word of each entity, following conlleval for B- and I-, and E- and S-.

    >>> entities(["I-PER", "O", "B-LOC", "I-LOC", "B-LOC"])
    [('PER', 0, 0), ('LOC', 2, 3), ('LOC', 4, 4)]
    """
    found: list[tuple[str, int, int]] = []
    before, ended = "O", True
    for place, tag in enumerate(tags):
        part, _, kind = tag.partition("-") if "-" in tag else ("I", "", tag)
        if tag != "O":
            goes_on = not ended and before == kind and part not in ("B", "S")
            first = found.pop()[1] if goes_on else place
            found.append((kind, first, place))
        before, ended = ("O", True) if tag == "O" else (kind, part in ("E", "S"))
    return found
