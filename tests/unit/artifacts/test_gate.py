from __future__ import annotations

from collections.abc import Sequence

import pytest

from understudy.artifacts.gate import quantize_less
from understudy.errors import ModelError
from understudy.evaluation.bootstrap import Estimate

HARM = {"embeddings": 0.1, "layer 1": 5.0, "layer 2": 1.0, "head": 0.5}


def losing(points: dict[str, float]) -> tuple[list[list[str]], object]:
    """A model that loses these points for each part that is quantised."""
    made: list[list[str]] = []

    def make(kept: Sequence[str]) -> float:
        made.append(list(kept))
        return sum(lost for part, lost in points.items() if part not in kept)

    return made, make


def clear(points: float) -> Estimate:
    return Estimate(points, points - 0.1, points + 0.1)


def by_chance(points: float) -> Estimate:
    return Estimate(points, -0.1, 2 * points)


def test_what_loses_little_is_quantised_whole_and_nothing_else_is_tried() -> None:
    made, make = losing({"layer 1": 0.5})

    def never() -> dict[str, float]:
        raise AssertionError

    lost, tried = quantize_less(make, clear, never, tolerance=0.5)
    assert (lost, made) == (0.5, [[]])
    assert tried == [{"kept_in_fp32": [], "points_lost": 0.5, "interval": [0.4, 0.6]}]


def test_the_most_harmful_parts_are_left_out_first_until_the_score_is_kept() -> None:
    made, make = losing({"layer 1": 2.0, "layer 2": 1.0, "head": 0.3})
    lost, tried = quantize_less(make, clear, lambda: HARM, tolerance=0.5)
    assert made == [[], ["layer 1"], ["layer 1", "layer 2"]]
    assert lost == pytest.approx(0.3)
    assert [one["points_lost"] for one in tried] == pytest.approx([3.3, 1.3, 0.3])


def test_a_better_score_is_no_loss() -> None:
    _, make = losing({"head": -3.0})
    assert quantize_less(make, clear, dict, tolerance=0.0)[0] == -3.0


def test_a_loss_that_may_be_chance_leaves_nothing_in_fp32() -> None:
    made, make = losing({"layer 1": 0.9})
    _, tried = quantize_less(make, by_chance, dict, tolerance=0.5)
    assert made == [[]]
    assert tried[0]["points_lost"] == 0.9


def test_what_cannot_be_kept_fails_with_the_figure() -> None:
    made, make = losing(dict.fromkeys(HARM, 4.0))
    with pytest.raises(ModelError, match=r"int8 loses 16.0 points, and 4.0 at the least .* 0.5 are allowed"):
        quantize_less(make, clear, lambda: HARM, tolerance=0.5)
    assert made[-1] == ["layer 1", "layer 2", "head"]  # something is quantised, or it is no int8
