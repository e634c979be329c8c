"""SQuAD's exact match and F1, as defined by its official scripts (1.1 and 2.0)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Convert to lower case and remove punctuation, articles and extra spaces, in this order.

    >>> normalize_answer("The  Cat's hat!")
    'cats hat'
    """
    without_punctuation = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", without_punctuation).split())


def answer_exact(prediction: str, gold: str) -> float:
    """Return 1 if the normalised texts are equal, otherwise 0."""
    return float(normalize_answer(prediction) == normalize_answer(gold))


def answer_f1(prediction: str, gold: str) -> float:
    """Return the F1 of bags of words, as in version 2.0: if one is empty, 1 if both are, otherwise 0."""
    predicted_words = normalize_answer(prediction).split()
    gold_words = normalize_answer(gold).split()
    if not predicted_words or not gold_words:
        return float(predicted_words == gold_words)
    common = sum((Counter(predicted_words) & Counter(gold_words)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(predicted_words), common / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def score_answer(prediction: str, golds: Sequence[str], *, unanswerable: bool) -> tuple[float, float]:
    """Return exact match and F1 against the best of several gold answers.

    Args:
        unanswerable: follow the 2.0 script: without gold answers, no answer is correct, and gold answers that
            normalise to nothing are ignored. The 1.1 script has neither rule, and gives answers without a
            word an F1 of 0.
    """
    if not unanswerable:
        has_words = bool(normalize_answer(prediction))
        return (
            max((answer_exact(prediction, gold) for gold in golds), default=0.0),
            max((answer_f1(prediction, gold) for gold in golds if has_words), default=0.0),
        )
    usable = [gold for gold in golds if normalize_answer(gold)] or [""]
    return (
        max(answer_exact(prediction, gold) for gold in usable),
        max(answer_f1(prediction, gold) for gold in usable),
    )
