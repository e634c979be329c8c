"""The official metrics, each a function of per-row outcomes.

Every metric takes one array with a row per example and returns a number. That shape is what
makes intervals simple: a bootstrap sample is a choice of rows.

    classification, multiple choice   [prediction, label]
    regression                        [prediction, score]
    question answering                [exact match, F1, has an answer]
    token classification              [spans right, spans predicted, spans gold]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from seqeval.metrics.sequence_labeling import get_entities

Outcomes = NDArray[np.float64]


def accuracy(outcomes: Outcomes) -> float:
    """Share of rows where the prediction is the label."""
    return float((outcomes[:, 0] == outcomes[:, 1]).mean())


def f1(outcomes: Outcomes) -> float:
    """F1 of label 1, as GLUE has it for MRPC and QQP."""
    predicted, gold = (outcomes[:, :2] == 1).T
    return _f1((predicted & gold).sum(), predicted.sum(), gold.sum())


def macro_f1(outcomes: Outcomes) -> float:
    """Mean F1 over the labels that occur."""
    counts = [count for count in zip(*_count_labels(outcomes), strict=True) if any(count)]
    return float(np.mean([_f1(*count) for count in counts]))


def matthews(outcomes: Outcomes) -> float:
    """Matthews correlation, also of more than two labels; 0 where a side is constant."""
    right, predicted, gold = _count_labels(outcomes)
    num_rows = len(outcomes)
    spread = (num_rows**2 - predicted @ predicted) * (num_rows**2 - gold @ gold)
    return float((right.sum() * num_rows - predicted @ gold) / math.sqrt(spread)) if spread else 0.0


def _count_labels(outcomes: Outcomes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """How often each label is right, predicted and gold."""
    predicted, gold = outcomes.astype(np.int64).T
    num_labels = int(outcomes.max()) + 1
    right, predicted, gold = (
        np.bincount(labels, minlength=num_labels) for labels in (gold[predicted == gold], predicted, gold)
    )
    return right, predicted, gold


def _f1(right: float, predicted: float, gold: float) -> float:
    return float(2 * right / (predicted + gold)) if predicted + gold else 0.0


def pearson(outcomes: Outcomes) -> float:
    """Linear correlation."""
    return _correlation(stats.pearsonr, outcomes)


def spearman(outcomes: Outcomes) -> float:
    """Correlation of the ranks, ties at their mean rank."""
    return _correlation(stats.spearmanr, outcomes)


def _correlation(function: Callable[..., tuple[float, float]], outcomes: Outcomes) -> float:
    # Undefined for a constant side; a model that always says the same explains nothing: 0.
    if (outcomes == outcomes[0]).all(axis=0).any():
        return 0.0
    return float(function(outcomes[:, 0], outcomes[:, 1])[0])


def exact_match(outcomes: Outcomes) -> float:
    """Share of questions answered to the letter, after SQuAD's normalisation."""
    return float(outcomes[:, 0].mean())


def squad_f1(outcomes: Outcomes) -> float:
    """Mean F1 of words over questions."""
    return float(outcomes[:, 1].mean())


def span_f1(outcomes: Outcomes) -> float:
    """Micro F1 over entities, as conlleval has it: right means same type and same limits."""
    return _f1(*outcomes.sum(axis=0))


METRICS: Mapping[str, Callable[[Outcomes], float]] = {
    function.__name__: function
    for function in (
        accuracy, f1, macro_f1, matthews, pearson, spearman, exact_match, squad_f1, span_f1,
    )
}  # fmt: skip


def span_counts(predicted: Sequence[str], gold: Sequence[str]) -> tuple[int, int, int]:
    """Entities right, predicted and gold in one sentence of IOB tags.

    >>> span_counts(["B-PER", "I-PER", "O"], ["B-PER", "O", "O"])
    (0, 1, 1)
    """
    predicted_spans = set(get_entities(list(predicted)))
    gold_spans = set(get_entities(list(gold)))
    return len(predicted_spans & gold_spans), len(predicted_spans), len(gold_spans)
