"""The official metrics, each a function of per-row outcomes.

Every metric takes one array with a row per example and returns a number, so a bootstrap sample is a
choice of rows. The definitions are those of scikit-learn, SciPy and seqeval.

    classification, multiple choice   [prediction, label]
    regression                        [prediction, score]
    question answering                [exact match, F1, has an answer]
    token classification              [spans right, spans predicted, spans gold]
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sklearn.metrics
from numpy.typing import NDArray
from scipy import stats
from seqeval.metrics.sequence_labeling import get_entities
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from understudy.errors import RecipeError

Outcomes = NDArray[np.float64]
Metric = Callable[[Outcomes], float]


def accuracy(outcomes: Outcomes) -> float:
    """Share of rows where the prediction is the label."""
    predicted, gold = _labels(outcomes)
    return float(sklearn.metrics.accuracy_score(gold, predicted))


def f1(outcomes: Outcomes) -> float:
    """F1 of label 1, as GLUE has it for MRPC and QQP."""
    predicted, gold = _labels(outcomes)
    scores = sklearn.metrics.f1_score(gold, predicted, labels=[1], average=None, zero_division=0.0)
    return float(scores[0])


def macro_f1(outcomes: Outcomes) -> float:
    """Mean F1 over the labels that occur."""
    predicted, gold = _labels(outcomes)
    return float(sklearn.metrics.f1_score(gold, predicted, average="macro", zero_division=0.0))


def matthews(outcomes: Outcomes) -> float:
    """Matthews correlation, also of more than two labels; 0 where a side is constant."""
    predicted, gold = _labels(outcomes)
    if _has_constant_column(outcomes):
        return 0.0  # scikit-learn's value too, but with a warning
    return float(sklearn.metrics.matthews_corrcoef(gold, predicted))


def _labels(outcomes: Outcomes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    predicted, gold = outcomes.astype(np.int64).T
    return predicted, gold


def _has_constant_column(outcomes: Outcomes) -> bool:
    return bool((outcomes == outcomes[0]).all(axis=0).any())


def pearson(outcomes: Outcomes) -> float:
    """Linear correlation."""
    return _correlation(stats.pearsonr, outcomes)


def spearman(outcomes: Outcomes) -> float:
    """Correlation of the ranks, ties at their mean rank."""
    return _correlation(stats.spearmanr, outcomes)


def _correlation(function: Callable[..., tuple[float, float]], outcomes: Outcomes) -> float:
    # Undefined for a constant side; a model that always says the same explains nothing: 0.
    if _has_constant_column(outcomes):
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


METRICS: Mapping[str, Metric] = {
    function.__name__: function
    for function in (
        accuracy, f1, macro_f1, matthews, pearson, spearman, exact_match, squad_f1, span_f1,
    )
}  # fmt: skip


def own_metric(name: str, allowed: Sequence[str]) -> Metric:
    """Look up a metric of a kind that has metrics of its own."""
    if name not in allowed:
        raise RecipeError(f"metric must be one of {', '.join(allowed)}; got {name!r}.")
    return METRICS[name]


def find_metric(name: str, *, of: str) -> Metric:
    """Find a metric of one prediction for each row: ours by its name, else a scorer of scikit-learn.

    Args:
        of: `classes` or `numbers`, which the predictions are.

    >>> round(find_metric("balanced_accuracy", of="classes")(np.array([[0.0, 0], [0, 0], [0, 1]])), 2)
    0.5
    """
    ours = _OF_CLASSES if of == "classes" else _OF_NUMBERS
    if name in ours:
        return METRICS[name]
    allowed = [*ours, *_scorer_names(of)]
    if name not in allowed:
        raise RecipeError(f"metric must be one of {', '.join(allowed)}; got {name!r}.")
    scorer = sklearn.metrics.get_scorer(name)
    given = _GivenClasses() if of == "classes" else _GivenNumbers()

    def metric(outcomes: Outcomes) -> float:
        predicted, gold = _labels(outcomes) if of == "classes" else outcomes.T
        try:
            with warnings.catch_warnings():
                # A resampled set may lack a class; scikit-learn's value for it stands.
                warnings.simplefilter("ignore")
                return float(scorer(given, predicted.reshape(-1, 1), gold))
        except ValueError as error:
            raise RecipeError(f"metric {name} does not fit these labels: {error}") from error

    return metric


_OF_CLASSES, _OF_NUMBERS = ("accuracy", "f1", "macro_f1", "matthews"), ("pearson", "spearman")


def _scorer_names(of: str) -> list[str]:
    """Scorers that need predictions and no probabilities."""
    classes = ("balanced_accuracy", "f1_", "jaccard", "matthews_corrcoef", "precision", "recall")
    numbers = ("explained_variance", "neg_m", "neg_root", "r2")
    named = [name for name in sklearn.metrics.get_scorer_names() if not name.endswith("_samples")]
    return [name for name in named if name.startswith(classes if of == "classes" else numbers)]


class _GivenClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Returns its input: scikit-learn's scorers ask a model, and the predictions are there already."""

    classes_ = np.array([0, 1])

    def predict(self, given: NDArray[Any]) -> NDArray[Any]:
        return given[:, 0]

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _GivenNumbers(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The same for numbers."""

    def predict(self, given: NDArray[Any]) -> NDArray[Any]:
        return given[:, 0]

    def __sklearn_is_fitted__(self) -> bool:
        return True


def counted(metric: Metric) -> Metric:
    """The same metric from counts of labels, where there is such a form; else the metric itself.

    The bootstrap draws a thousand samples, and scikit-learn takes milliseconds for each.
    """
    return _COUNTED.get(metric, metric)


def _count_accuracy(outcomes: Outcomes) -> float:
    return float((outcomes[:, 0] == outcomes[:, 1]).mean())


def _count_f1(outcomes: Outcomes) -> float:
    predicted, gold = (outcomes[:, :2] == 1).T
    return _f1((predicted & gold).sum(), predicted.sum(), gold.sum())


def _count_macro_f1(outcomes: Outcomes) -> float:
    counts = [count for count in zip(*_count_labels(outcomes), strict=True) if any(count)]
    return float(np.mean([_f1(*count) for count in counts]))


def _count_matthews(outcomes: Outcomes) -> float:
    right, predicted, gold = _count_labels(outcomes)
    num_rows = len(outcomes)
    # Python's integers: the product of both spreads exceeds 64 bits from 78,000 rows on.
    spreads = [num_rows**2 - int(side @ side) for side in (predicted, gold)]
    covariance = int(right.sum()) * num_rows - int(predicted @ gold)
    return covariance / math.sqrt(spreads[0] * spreads[1]) if all(spreads) else 0.0


def _count_labels(outcomes: Outcomes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """How often each label is right, predicted and gold."""
    predicted, gold = _labels(outcomes)
    num_labels = int(outcomes.max()) + 1
    right, predicted, gold = (
        np.bincount(labels, minlength=num_labels) for labels in (gold[predicted == gold], predicted, gold)
    )
    return right, predicted, gold


def _f1(right: float, predicted: float, gold: float) -> float:
    return float(2 * right / (predicted + gold)) if predicted + gold else 0.0


_COUNTED: Mapping[Metric, Metric] = {
    accuracy: _count_accuracy,
    f1: _count_f1,
    macro_f1: _count_macro_f1,
    matthews: _count_matthews,
}


def span_counts(predicted: Sequence[str], gold: Sequence[str]) -> tuple[int, int, int]:
    """Entities right, predicted and gold in one sentence of IOB tags.

    >>> span_counts(["B-PER", "I-PER", "O"], ["B-PER", "O", "O"])
    (0, 1, 1)
    """
    predicted_spans = set(get_entities(list(predicted)))
    gold_spans = set(get_entities(list(gold)))
    return len(predicted_spans & gold_spans), len(predicted_spans), len(gold_spans)
