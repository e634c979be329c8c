"""The official metrics, each a function of per-row outcomes.

Every metric takes an array with one row per example and returns a number, so a bootstrap sample is a
choice of rows. The definitions are those of scikit-learn, SciPy and seqeval.

    classification, multiple choice   [prediction, label]
    regression                        [prediction, score]
    question answering                [exact match, F1, has an answer]
    token classification              [spans right, spans predicted, spans gold]
    multi-label                       [a prediction for each label …, each label …], 0 or 1
"""

from __future__ import annotations

import functools
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

from understudy.errors import RecipeError, did_you_mean

Outcomes = NDArray[np.float64]
Metric = Callable[[Outcomes], float]


def accuracy(outcomes: Outcomes) -> float:
    """Return the share of rows where the prediction equals the label."""
    predicted, gold = _labels(outcomes)
    return float(sklearn.metrics.accuracy_score(gold, predicted))


def f1(outcomes: Outcomes) -> float:
    """Return the F1 of label 1, as in GLUE for MRPC and QQP."""
    predicted, gold = _labels(outcomes)
    scores = sklearn.metrics.f1_score(gold, predicted, labels=[1], average=None, zero_division=0.0)
    return float(scores[0])


def macro_f1(outcomes: Outcomes) -> float:
    """Return the mean F1 over the labels that occur."""
    predicted, gold = _labels(outcomes)
    return float(sklearn.metrics.f1_score(gold, predicted, average="macro", zero_division=0.0))


def matthews(outcomes: Outcomes) -> float:
    """Return the Matthews correlation, for any number of labels; 0 if predictions or labels are constant."""
    predicted, gold = _labels(outcomes)
    if _has_constant_column(outcomes):
        return 0.0  # same as scikit-learn, but without its warning
    return float(sklearn.metrics.matthews_corrcoef(gold, predicted))


def _labels(outcomes: Outcomes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    predicted, gold = outcomes.astype(np.int64).T
    return predicted, gold


def _has_constant_column(outcomes: Outcomes) -> bool:
    return bool((outcomes == outcomes[0]).all(axis=0).any())


def pearson(outcomes: Outcomes) -> float:
    """Return the linear correlation."""
    return _correlation(stats.pearsonr, outcomes)


def spearman(outcomes: Outcomes) -> float:
    """Return the rank correlation, with ties at their mean rank."""
    return _correlation(stats.spearmanr, outcomes)


def _correlation(function: Callable[..., tuple[float, float]], outcomes: Outcomes) -> float:
    # Undefined if a column is constant; a constant prediction explains nothing, so 0.
    if _has_constant_column(outcomes):
        return 0.0
    return float(function(outcomes[:, 0], outcomes[:, 1])[0])


def exact_match(outcomes: Outcomes) -> float:
    """Return the share of exactly correct answers, after SQuAD's normalisation."""
    return float(outcomes[:, 0].mean())


def squad_f1(outcomes: Outcomes) -> float:
    """Return the mean F1 of words over questions."""
    return float(outcomes[:, 1].mean())


def span_f1(outcomes: Outcomes) -> float:
    """Return the micro F1 over entities, as in conlleval: correct means the same type and boundaries."""
    return _f1(*outcomes.sum(axis=0))


def micro_f1_of_sets(outcomes: Outcomes) -> float:
    """Return the F1 over all pairs of a row and a label."""
    predicted, gold = _sets(outcomes)
    return float(sklearn.metrics.f1_score(gold, predicted, average="micro", zero_division=0.0))


def macro_f1_of_sets(outcomes: Outcomes) -> float:
    """Return the mean F1 over the labels that occur, in predictions or in rows."""
    predicted, gold = _sets(outcomes)
    occur = np.flatnonzero((predicted | gold).any(axis=0))
    if not len(occur):
        return 0.0
    return float(sklearn.metrics.f1_score(gold, predicted, labels=occur, average="macro", zero_division=0.0))


def _sets(outcomes: Outcomes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which labels are predicted and which are gold, rows by labels."""
    predicted, gold = np.split(outcomes.astype(np.int64), 2, axis=1)
    return predicted, gold


METRICS: Mapping[str, Metric] = {
    function.__name__: function
    for function in (
        accuracy, f1, macro_f1, matthews, pearson, spearman, exact_match, squad_f1, span_f1,
    )
}  # fmt: skip


def own_metric(name: str, allowed: Sequence[str]) -> Metric:
    """Look up a metric for a kind with its own metrics."""
    if name not in allowed:
        raise RecipeError(
            f"metric must be one of {', '.join(allowed)}; got {name!r}.{did_you_mean(name, allowed)}"
        )
    return METRICS[name]


@functools.cache
def find_metric(name: str, *, of: str) -> Metric:
    """Find a metric for one prediction per row: ours by name, or a scikit-learn scorer.

    Args:
        of: whether the predictions are `classes`, `numbers` or `label sets`.

    >>> round(find_metric("balanced_accuracy", of="classes")(np.array([[0.0, 0], [0, 0], [0, 1]])), 2)
    0.5
    """
    ours = _OURS[of]
    if name in ours:
        return ours[name]
    allowed = [*ours, *_scorer_names(of)]
    if name not in allowed:
        raise RecipeError(
            f"metric must be one of {', '.join(allowed)}; got {name!r}.{did_you_mean(name, allowed)}"
        )
    scorer = sklearn.metrics.get_scorer(name)
    given = _GivenNumbers() if of == "numbers" else _GivenClasses()

    def metric(outcomes: Outcomes) -> float:
        if of == "label sets":
            predicted, gold = _sets(outcomes)
        else:
            predicted, gold = _labels(outcomes) if of == "classes" else outcomes.T
            predicted = predicted.reshape(-1, 1)
        try:
            with warnings.catch_warnings():
                # A bootstrap sample may lack a class; use scikit-learn's value for it.
                warnings.simplefilter("ignore")
                return float(scorer(given, predicted, gold))
        except ValueError as error:
            raise RecipeError(f"metric {name} does not fit these labels: {error}") from error

    if of == "classes":
        _COUNTED[metric] = functools.partial(_count_scorer, name)
    return metric


_OURS: Mapping[str, Mapping[str, Metric]] = {
    "classes": {name: METRICS[name] for name in ("accuracy", "f1", "macro_f1", "matthews")},
    "numbers": {name: METRICS[name] for name in ("pearson", "spearman")},
    "label sets": {"micro_f1": micro_f1_of_sets, "macro_f1": macro_f1_of_sets},
}


def _scorer_names(of: str) -> list[str]:
    """Return the scorers that need only predictions, not probabilities."""
    if of == "label sets":
        averages = ("macro", "micro", "samples", "weighted")
        return [f"{kind}_{one}" for kind in ("f1", "jaccard", "precision", "recall") for one in averages]
    classes = ("balanced_accuracy", "f1_", "jaccard", "matthews_corrcoef", "precision", "recall")
    # Logarithmic errors and Poisson and gamma deviances fail on negative numbers, which a model may predict.
    errors = ("neg_mean_absolute", "neg_mean_squared_error", "neg_root_mean_squared_error")
    numbers = ("explained_variance", "neg_max", "neg_median", "r2", *errors)
    named = [name for name in sklearn.metrics.get_scorer_names() if not name.endswith("_samples")]
    return [name for name in named if name.startswith(classes if of == "classes" else numbers)]


class _GivenClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator that returns its input, since scikit-learn's scorers call a model for predictions."""

    classes_ = np.array([0, 1])

    def predict(self, given: NDArray[Any]) -> NDArray[Any]:
        return given[:, 0] if given.shape[1] == 1 else given

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _GivenNumbers(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The regression counterpart of `_GivenClasses`."""

    def predict(self, given: NDArray[Any]) -> NDArray[Any]:
        return given[:, 0]

    def __sklearn_is_fitted__(self) -> bool:
        return True


def counted(metric: Metric) -> Metric:
    """Return a faster form of the metric, from counts of labels, if there is one.

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
    # Python integers, since the product of both spreads exceeds 64 bits from 78,000 rows.
    spreads = [num_rows**2 - int(side @ side) for side in (predicted, gold)]
    covariance = int(right.sum()) * num_rows - int(predicted @ gold)
    return covariance / math.sqrt(spreads[0] * spreads[1]) if all(spreads) else 0.0


def _count_labels(outcomes: Outcomes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Count how often each label is correct, predicted and gold."""
    predicted, gold = _labels(outcomes)
    num_labels = int(outcomes.max()) + 1
    right, predicted, gold = (
        np.bincount(labels, minlength=num_labels) for labels in (gold[predicted == gold], predicted, gold)
    )
    return right, predicted, gold


def _set_counts(outcomes: Outcomes) -> NDArray[np.float32]:
    """Return whether each label of a row is correct, predicted and gold: three columns for each label."""
    predicted, gold = np.split(outcomes.astype(np.float32), 2, axis=1)
    return np.concatenate([predicted * gold, predicted, gold], axis=1)


def _micro_f1_of_counts(counts: NDArray[Any]) -> float:
    return _f1(*counts.reshape(3, -1).sum(axis=1, dtype=np.float64))


def _macro_f1_of_counts(counts: NDArray[Any]) -> float:
    right, predicted, gold = counts.astype(np.float64).reshape(3, -1)
    total = predicted + gold
    return float((2 * right[total > 0] / total[total > 0]).mean()) if total.any() else 0.0


def _count_scorer(name: str, outcomes: Outcomes) -> float:
    """Compute a class scorer of scikit-learn from counts; labels that never occur are left out."""
    if name == "matthews_corrcoef":
        return _count_matthews(outcomes)
    right, predicted, gold = _count_labels(outcomes)
    ratios: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {
        "precision": (right, predicted),
        "recall": (right, gold),
        "balanced": (right, gold),
        "f1": (2 * right, predicted + gold),
        "jaccard": (right, predicted + gold - right),
    }
    kind, _, average = name.partition("_")
    above, below = ratios[kind]
    if average == "micro":
        return float(above.sum() / below.sum())
    values = above / np.maximum(below, 1)
    if average == "weighted":
        return float(values @ gold / gold.sum())
    if not average:  # label 1
        return float(values[1]) if len(values) > 1 else 0.0
    return float(values[gold > 0 if kind == "balanced" else predicted + gold > 0].mean())


def _f1(right: float, predicted: float, gold: float) -> float:
    return float(2 * right / (predicted + gold)) if predicted + gold else 0.0


_COUNTED: dict[Metric, Metric] = {
    accuracy: _count_accuracy,
    f1: _count_f1,
    macro_f1: _count_macro_f1,
    matthews: _count_matthews,
}

# Metrics of sums over rows: what is summed, and the metric of the sums. A sample of rows is then a weight for
# each row, which is much faster if a row has hundreds of columns.
SUMMED: Mapping[Metric, tuple[Callable[[Outcomes], NDArray[Any]], Callable[[NDArray[Any]], float]]] = {
    micro_f1_of_sets: (_set_counts, _micro_f1_of_counts),
    macro_f1_of_sets: (_set_counts, _macro_f1_of_counts),
}


def span_counts(predicted: Sequence[str], gold: Sequence[str]) -> tuple[int, int, int]:
    """Count the correct, predicted and gold entities of one sentence with IOB tags.

    >>> span_counts(["B-PER", "I-PER", "O"], ["B-PER", "O", "O"])
    (0, 1, 1)
    """
    predicted_spans = set(get_entities(list(predicted)))
    gold_spans = set(get_entities(list(gold)))
    return len(predicted_spans & gold_spans), len(predicted_spans), len(gold_spans)
