"""Thresholds of labels: the best F1, and which of equally good ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.evaluation.thresholds import best_threshold, reliable_threshold

# Few different values, so that ties are frequent; and the whole range.
# Training flushes subnormal numbers to zero, in this process too once another test has trained.
PROBABILITIES = st.one_of(
    st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75, 1.0]), st.floats(0.0, 1.0, allow_subnormal=False)
)
ROWS = st.lists(st.tuples(PROBABILITIES, st.booleans()), min_size=1, max_size=30)


def f1(probabilities: np.ndarray, gold: np.ndarray, threshold: float) -> float:
    given_labels = probabilities >= threshold
    total = given_labels.sum() + gold.sum()
    return float(2 * (given_labels & gold).sum() / total) if total else 0.0


def columns(rows: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([row[0] for row in rows]), np.array([row[1] for row in rows])


@given(ROWS)
def test_no_other_threshold_is_better(rows: list[tuple[float, bool]]) -> None:
    probabilities, gold = columns(rows)
    chosen = f1(probabilities, gold, best_threshold(probabilities, gold))
    # Every set of rows that a threshold can choose: each probability as a threshold, and none at all.
    assert chosen == max(f1(probabilities, gold, one) for one in [0.0, 0.5, *probabilities.tolist()])


@given(ROWS)
def test_half_stays_where_nothing_is_better(rows: list[tuple[float, bool]]) -> None:
    probabilities, gold = columns(rows)
    chosen = best_threshold(probabilities, gold)
    assert 0.0 <= chosen <= 1.0
    assert (chosen == 0.5) == (f1(probabilities, gold, 0.5) == f1(probabilities, gold, chosen))


@given(ROWS, st.randoms())
def test_the_order_of_rows_does_not_matter(rows: list[tuple[float, bool]], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert best_threshold(*columns(rows)) == best_threshold(*columns(shuffled))


@pytest.mark.parametrize(
    ("probabilities", "gold", "expected"),
    [
        # In the middle between the neighbours.
        ([0.125, 0.25, 0.375, 0.875], [0, 0, 1, 1], 0.3125),
        ([0.625, 0.75, 0.875], [0, 1, 1], 0.6875),
        # Below all: every row has the label.
        ([0.25, 0.375], [1, 1], 0.125),
        # Two thresholds with an F1 of 2/3: the nearer to 0.5 is taken.
        ([0.0625, 0.25, 0.375, 0.4375], [1, 0, 0, 1], 0.40625),
        # 0.375 and 0.625 are as near and have an F1 of 2/3 each (2·3 / (5 + 4), 2·2 / (2 + 4)): the higher.
        ([0.6875] * 2 + [0.5625] + [0.4375] * 2 + [0.3125] * 4, [1, 1, 0, 1, 0, 1, 0, 0, 0], 0.625),
        # No row has the label.
        ([0.75, 0.875], [0, 0], 0.5),
    ],
)
def test_by_hand(probabilities: list[float], gold: list[int], expected: float) -> None:
    assert best_threshold(np.array(probabilities), np.array(gold, dtype=bool)) == expected


def test_neighbouring_floats_are_kept_apart() -> None:
    low = 0.75
    probabilities = np.array([low, np.nextafter(low, 1.0)])
    assert best_threshold(probabilities, np.array([False, True])) > low


def test_a_threshold_that_is_better_by_chance_is_not_used() -> None:
    generator = np.random.default_rng(0)
    gold = generator.random(200) < 0.3
    noise = generator.random(200)
    assert best_threshold(noise, gold) != 0.5
    # Right only if chosen on the very rows: between 0.4 and 0.6 the label is drawn by lot.
    probabilities = np.where(gold, 0.7, 0.3) + generator.normal(0, 0.15, 200)
    assert best_threshold(probabilities, gold) != 0.5
    assert reliable_threshold(probabilities, gold) == 0.5


def test_a_threshold_that_is_better_on_other_rows_too_is_used() -> None:
    generator = np.random.default_rng(0)
    gold = generator.random(200) < 0.3
    probabilities = np.where(gold, 0.3, 0.1) + generator.uniform(-0.05, 0.05, 200)
    assert reliable_threshold(probabilities, gold) == best_threshold(probabilities, gold) < 0.3


@given(ROWS)
def test_a_reliable_threshold_is_the_best_or_the_usual_one(rows: list[tuple[float, bool]]) -> None:
    probabilities, gold = columns(rows)
    assert reliable_threshold(probabilities, gold) in (0.5, best_threshold(probabilities, gold))
