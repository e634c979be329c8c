from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.errors import RecipeError
from understudy.models.layer_map import layer_map


@pytest.mark.parametrize(
    ("kind", "student", "teacher", "expected"),
    [
        ("uniform", 4, 12, (3, 6, 9, 12)),  # TinyBERT4: g(m) = 3m
        ("uniform", 6, 12, (2, 4, 6, 8, 10, 12)),
        ("uniform", 5, 12, (2, 5, 7, 10, 12)),
        ("uniform", 4, 6, (2, 3, 5, 6)),  # 1.5 and 4.5 round up
        ("uniform", 12, 12, tuple(range(1, 13))),
        ("top", 4, 12, (9, 10, 11, 12)),
        ("bottom", 4, 12, (1, 2, 3, 4)),
        ("skip", 6, 12, (2, 4, 6, 8, 10)),  # Patient KD's own sets
        ("skip", 3, 12, (4, 8)),
        ("skip", 6, 24, (4, 8, 12, 16, 20)),
        ("last", 6, 12, (7, 8, 9, 10, 11)),
        ("last", 3, 12, (10, 11)),
        ("last", 6, 24, (19, 20, 21, 22, 23)),
        ("skip", 5, 12, (2, 5, 7, 10)),  # m·N/M, half a layer upwards
        ("skip", 4, 7, (2, 4, 5)),
        ("last", 5, 12, (8, 9, 10, 11)),
        ("last", 4, 7, (4, 5, 6)),
        ([1, 1, 12], 4, 12, (1, 1, 12)),
    ],
)
def test_maps(kind: str, student: int, teacher: int, expected: tuple[int, ...]) -> None:
    assert layer_map(kind, student, teacher) == expected


@given(st.integers(1, 48), st.integers(0, 48))
def test_a_uniform_map_is_spread_evenly_and_ends_at_the_top(student: int, more: int) -> None:
    teacher = student + more
    layers = layer_map("uniform", student, teacher)
    assert layers[-1] == teacher
    assert all(1 <= layer <= teacher for layer in layers)
    steps = [after - before for before, after in zip((0, *layers), layers, strict=False)]
    assert max(steps) - min(steps) <= 1


@pytest.mark.parametrize(
    ("kind", "student", "teacher", "message"),
    [
        ("unifrom", 4, 12, "one of uniform, top, bottom, skip, last"),
        ("top", 13, 12, "1 to 12 layers"),
        ([], 4, 12, "got 0"),
        ([1, 2, 3, 4, 5], 4, 12, "got 5"),
        ([0, 3], 4, 12, "from 1 to 12"),
        ([3, 13], 4, 12, "from 1 to 12"),
        ([6, 3], 4, 12, r"must not go back; got \[6, 3\]"),
    ],
)
def test_maps_that_cannot_be(kind: str, student: int, teacher: int, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        layer_map(kind, student, teacher)


@pytest.mark.parametrize("kind", ["skip", "last"])
def test_a_student_of_one_layer_has_nothing_between(kind: str) -> None:
    with pytest.raises(RecipeError, match="leaves a student of one layer nothing to learn from"):
        layer_map(kind, 1, 12)
