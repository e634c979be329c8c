"""Each metric against a value computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, matthews_corrcoef

from understudy.errors import RecipeError
from understudy.evaluation.metrics import (
    SUMMED,
    _scorer_names,
    accuracy,
    counted,
    exact_match,
    f1,
    find_metric,
    macro_f1,
    macro_f1_of_sets,
    matthews,
    micro_f1_of_sets,
    pearson,
    span_counts,
    span_f1,
    spearman,
    squad_f1,
)

# predictions 1 1 0 0 1, labels 1 0 0 1 1: 2 true positives, 1 false positive, 1 true and 1 false negative
OUTCOMES = np.array([[1, 1], [1, 0], [0, 0], [0, 1], [1, 1]], dtype=np.float64)


def test_accuracy() -> None:
    assert accuracy(OUTCOMES) == pytest.approx(3 / 5)


def test_f1_of_label_one() -> None:
    # precision 2/3, recall 2/3
    assert f1(OUTCOMES) == pytest.approx(2 / 3)


def test_macro_f1() -> None:
    # label 0: precision 1/2, recall 1/2
    assert macro_f1(OUTCOMES) == pytest.approx((2 / 3 + 1 / 2) / 2)


def test_matthews() -> None:
    # (2·1 − 1·1) / √(3·3·2·2)
    assert matthews(OUTCOMES) == pytest.approx(1 / 6)


def test_matthews_of_a_constant_is_zero() -> None:
    assert matthews(np.array([[1.0, 1], [1, 0], [1, 1]])) == 0.0


@pytest.mark.parametrize("num_labels", [2, 5])
def test_a_million_rows_do_not_overflow(num_labels: int) -> None:
    generator = np.random.default_rng(0)
    gold = generator.integers(0, num_labels, 1_000_000)
    predicted = np.where(
        generator.random(len(gold)) < 0.7, gold, generator.integers(0, num_labels, len(gold))
    )
    outcomes = np.stack([predicted, gold], axis=1).astype(np.float64)
    for metric in (accuracy, f1, macro_f1, matthews):
        assert counted(metric)(outcomes) == pytest.approx(metric(outcomes), abs=1e-12)
    assert matthews(outcomes) == pytest.approx(matthews_corrcoef(gold, predicted), abs=1e-12)


@pytest.mark.filterwarnings("ignore:A single label was found:UserWarning")
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_counts_are_those_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    outcomes = np.array(pairs, dtype=np.float64)
    predicted, gold = outcomes.T
    assert macro_f1(outcomes) == pytest.approx(f1_score(gold, predicted, average="macro", zero_division=0.0))
    assert matthews(outcomes) == pytest.approx(matthews_corrcoef(gold, predicted), abs=1e-12)
    (of_one,) = f1_score(gold, predicted, labels=[1], average=None, zero_division=0.0)
    assert f1(outcomes) == pytest.approx(of_one)


@pytest.mark.parametrize("name", _scorer_names("classes"))
@given(pairs=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=20))
@settings(max_examples=30)
def test_scorers_are_counted_as_scikit_learn_computes_them(name: str, pairs: list[tuple[int, int]]) -> None:
    metric = find_metric(name, of="classes")
    for labels in (1, 2):  # two classes, and three where the scorer takes them
        outcomes = np.array([*pairs, (0, 1), (labels, labels), (1, 0)], dtype=np.float64)
        if labels == 2 and name in ("precision", "recall", "jaccard"):
            with pytest.raises(RecipeError, match="does not fit these labels"):
                metric(outcomes)
        else:
            assert counted(metric) is not metric
            assert counted(metric)(outcomes) == pytest.approx(metric(outcomes), abs=1e-12)


# Two predictions and two labels a row. First label: 1 right of 2 predicted and 1 gold; second: 1, 1 and 2.
SETS = np.array([[1, 0, 1, 1], [1, 1, 0, 1], [0, 0, 0, 0]], dtype=np.float64)


def test_f1_of_label_sets() -> None:
    assert micro_f1_of_sets(SETS) == pytest.approx(2 * 2 / (3 + 3))
    assert macro_f1_of_sets(SETS) == pytest.approx((2 * 1 / 3 + 2 * 1 / 3) / 2)


def test_a_label_that_never_occurs_is_no_part_of_macro_f1() -> None:
    # predictions 1 0, labels 1 0: the second label is in no row and no prediction.
    assert macro_f1_of_sets(np.array([[1.0, 0, 1, 0], [0, 0, 0, 0]])) == 1.0
    assert macro_f1_of_sets(np.zeros((2, 4))) == micro_f1_of_sets(np.zeros((2, 4))) == 0.0


@given(st.lists(st.lists(st.integers(0, 1), min_size=6, max_size=6), min_size=1, max_size=20))
@settings(max_examples=50)
def test_counts_of_label_sets_are_those_of_scikit_learn(rows: list[list[int]]) -> None:
    outcomes = np.array(rows, dtype=np.float64)
    for metric in (micro_f1_of_sets, macro_f1_of_sets):
        parts, of_sums = SUMMED[metric]
        assert of_sums(parts(outcomes).sum(axis=0)) == pytest.approx(metric(outcomes), abs=1e-6)


@pytest.mark.parametrize("name", _scorer_names("label sets"))
def test_scorers_of_label_sets(name: str) -> None:
    predicted, gold = SETS[:, :2].astype(int), SETS[:, 2:].astype(int)
    kind, _, average = name.partition("_")
    function = getattr(sklearn.metrics, f"{kind}_score")
    expected = function(gold, predicted, average=average, zero_division=0.0)
    assert find_metric(name, of="label sets")(SETS) == pytest.approx(expected)


def test_what_label_sets_cannot_be_scored_by() -> None:
    with pytest.raises(RecipeError, match=r"got 'acuracy'\. Did you mean 'accuracy'"):
        find_metric("acuracy", of="classes")
    with pytest.raises(RecipeError, match="metric must be one of micro_f1, macro_f1, f1_macro"):
        find_metric("accuracy", of="label sets")


def test_a_scorer_of_numbers() -> None:
    outcomes = np.array([[1.0, 2.0], [3.0, 3.0], [5.0, 4.0]])
    assert find_metric("neg_mean_absolute_error", of="numbers")(outcomes) == pytest.approx(-2 / 3)
    with pytest.raises(RecipeError, match="metric must be one of pearson, spearman"):
        find_metric("accuracy", of="numbers")


def test_pearson() -> None:
    # x = 1 2 3, y = 1 2 6: covariance 5, deviations √2 · √14
    outcomes = np.array([[1.0, 1], [2, 2], [3, 6]])
    assert pearson(outcomes) == pytest.approx(5 / math.sqrt(2 * 14))


def test_spearman_counts_ranks_with_ties_at_their_mean() -> None:
    assert spearman(np.array([[1.0, 1], [2, 2], [3, 6]])) == pytest.approx(1.0)
    # ranks 1 2.5 2.5 against 1 2 3: covariance 1.5, deviations √1.5 · √2
    assert spearman(np.array([[1.0, 1], [2, 2], [2, 3]])) == pytest.approx(1.5 / math.sqrt(1.5 * 2))


def test_correlation_of_a_constant_is_zero() -> None:
    assert pearson(np.array([[2.0, 1], [2, 2], [2, 3]])) == 0.0
    assert spearman(np.array([[2.0, 1], [2, 2], [2, 3]])) == 0.0


def test_squad_means() -> None:
    outcomes = np.array([[1.0, 1.0, 1.0], [0.0, 0.5, 1.0], [0.0, 0.0, 0.0]])
    assert exact_match(outcomes) == pytest.approx(1 / 3)
    assert squad_f1(outcomes) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        (["B-PER", "I-PER", "O"], ["B-PER", "I-PER", "O"], (1, 1, 1)),
        (["B-PER", "O", "O"], ["B-PER", "I-PER", "O"], (0, 1, 1)),  # overlaps, but ends too early
        (["B-PER", "I-PER", "I-PER"], ["B-PER", "I-PER", "O"], (0, 1, 1)),  # ends too late
        (["B-ORG", "I-ORG", "O"], ["B-PER", "I-PER", "O"], (0, 1, 1)),  # right limits, wrong type
        (["B-PER", "B-PER", "O"], ["B-PER", "I-PER", "O"], (0, 2, 1)),  # one split in two
        (["B-PER", "I-PER", "O"], ["B-PER", "B-PER", "O"], (0, 1, 2)),  # two joined
        (["O", "I-PER", "O"], ["O", "B-PER", "O"], (1, 1, 1)),  # conlleval: I- after O begins one
        (["B-PER", "I-ORG", "O"], ["B-PER", "B-ORG", "O"], (2, 2, 2)),  # I- of another type too
        (["O", "O", "O"], ["B-PER", "O", "B-LOC"], (0, 0, 2)),
        (["B-LOC", "O", "O"], ["O", "O", "O"], (0, 1, 0)),
        (["O", "O", "B-LOC"], ["O", "O", "B-LOC"], (1, 1, 1)),  # at the very end
    ],
)
def test_spans(predicted: list[str], gold: list[str], expected: tuple[int, int, int]) -> None:
    assert span_counts(predicted, gold) == expected


def test_span_f1_is_over_all_sentences_together() -> None:
    # 3 right of 4 predicted and 5 gold: 2·3 / 9
    assert span_f1(np.array([[1.0, 1, 3], [2, 3, 2]])) == pytest.approx(6 / 9)


def test_span_f1_of_nothing_is_zero() -> None:
    assert span_f1(np.zeros((2, 3))) == 0.0
