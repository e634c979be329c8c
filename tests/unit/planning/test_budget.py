"""Shapes for a target: what a student will cost, and the largest one that fits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig

from understudy.errors import RecipeError
from understudy.models.settings import StudentSettings, Target, check_start, override_sizes, parse_target
from understudy.planning.budget import Shape, StudentCost, candidate_shapes, choose_shape, fit_costs

CONFIG = BertConfig(hidden_size=384, num_hidden_layers=12, num_attention_heads=12)
SHAPES = candidate_shapes(CONFIG)


def true_cost(shape: Shape, vocabulary: int) -> StudentCost:
    """A machine whose times and sizes are known."""
    layers, width = shape.layers, shape.width
    time = 0.1 + layers * (0.05 + 2e-4 * width + 1e-6 * width**2)
    size = 30_000 + layers * (12 * width**2 + 52 * width) + (vocabulary + 512) * width
    return StudentCost(time, size / 1e6)


TIMED = [Shape(2, 96), Shape(2, 384), Shape(4, 192), Shape(4, 288), Shape(6, 96), Shape(6, 384)]
COSTS = fit_costs([(shape, true_cost(shape, 1_000)) for shape in TIMED], 30_522)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("2ms", Target(2.0)),
        ("1.5 ms", Target(1.5)),
        ("12MB", Target(None, 12.0)),
        ("2ms, 12mb", Target(2.0, 12.0)),
        (".5ms", Target(0.5)),
    ],
)
def test_targets_are_read(text: str, target: Target) -> None:
    assert parse_target(text) == target
    assert parse_target(str(target)) == target


@pytest.mark.parametrize("text", ["", "2", "2 s", "2ms 3ms", "2ms, 3ms", "0ms", "fast", "-1ms"])
def test_other_targets_are_refused(text: str) -> None:
    with pytest.raises(RecipeError, match="a time, a size or both"):
        parse_target(text)


def test_costs_of_other_shapes_follow_from_a_few() -> None:
    for shape in SHAPES:
        found, expected = COSTS.predict(shape), true_cost(shape, 30_522)
        assert found.milliseconds == pytest.approx(expected.milliseconds, rel=0.01)
        assert found.megabytes == pytest.approx(expected.megabytes, rel=0.01)


def test_noise_of_a_tenth_stays_a_tenth() -> None:
    generator = np.random.default_rng(0)
    noisy = [
        (shape, StudentCost(cost.milliseconds * generator.uniform(0.9, 1.1), cost.megabytes))
        for shape, cost in ((shape, true_cost(shape, 1_000)) for shape in TIMED)
    ]
    costs = fit_costs(noisy, 30_522)
    ratios = [costs.predict(shape).milliseconds / true_cost(shape, 30_522).milliseconds for shape in SHAPES]
    assert 0.85 < min(ratios) <= max(ratios) < 1.15


@given(st.sampled_from(SHAPES), st.sampled_from(SHAPES))
def test_a_larger_shape_never_costs_less(one: Shape, other: Shape) -> None:
    if one.layers <= other.layers and one.width <= other.width:
        first, second = COSTS.predict(one), COSTS.predict(other)
        assert first.milliseconds <= second.milliseconds
        assert first.megabytes <= second.megabytes


def test_candidates_are_shapes_that_a_teacher_can_be_cut_to() -> None:
    assert all(shape.width % 12 == 0 and shape.width <= 384 and shape.layers <= 6 for shape in SHAPES)
    assert Shape(6, 384) in SHAPES
    assert [shape.layers * shape.width**2 for shape in SHAPES] == sorted(
        shape.layers * shape.width**2 for shape in SHAPES
    )


def test_the_largest_that_fits_is_chosen() -> None:
    for target in (Target(0.8), Target(None, 8.0), Target(1.5, 9.0)):
        chosen = choose_shape(target, SHAPES, COSTS)
        assert not COSTS.predict(chosen).exceeds(target)
        larger = [shape for shape in SHAPES if not COSTS.predict(shape).exceeds(target)]
        assert chosen.layers * chosen.width**2 == max(shape.layers * shape.width**2 for shape in larger)
    with pytest.raises(RecipeError, match=r"no student is within 0\.01ms: the smallest, 2l-96d"):
        choose_shape(Target(0.01), SHAPES, COSTS)


def test_a_target_stands_instead_of_a_shape() -> None:
    settings = override_sizes({"student.target": "2ms"})
    assert settings["student.shape"] is None
    assert settings["student.hidden_size"] is None
    with pytest.raises(RecipeError, match="a shape and a target exclude each other"):
        override_sizes({"student.target": "2ms", "student.shape": "4l-312d"})
    with pytest.raises(RecipeError, match=r"student\.target and student\.model exclude"):
        check_start(StudentSettings(target="2ms", model="some/encoder"))


def test_a_factorised_embedding_does_not_grow_with_the_width() -> None:
    def cost(shape: Shape, num_tokens: int) -> StudentCost:
        layers, width = shape.layers, shape.width
        return StudentCost(1.0, (30_000 + layers * 12 * width**2 + (num_tokens + 512) * 128) / 1e6)

    costs = fit_costs([(shape, cost(shape, 1_000)) for shape in TIMED], 30_522, 128)
    for shape in SHAPES:
        assert costs.predict(shape).megabytes == pytest.approx(cost(shape, 30_522).megabytes, rel=0.02)


@pytest.mark.parametrize(("layers", "deepest"), [(1, 1), (2, 1), (3, 2), (4, 2), (24, 12)])
def test_a_student_has_half_of_its_teachers_layers_at_most(layers: int, deepest: int) -> None:
    config = BertConfig(hidden_size=384, num_hidden_layers=layers, num_attention_heads=12)
    assert max(shape.layers for shape in candidate_shapes(config)) == deepest


def test_a_narrow_feed_forward_part_cannot_be_cut_wider() -> None:
    narrow = BertConfig(hidden_size=384, intermediate_size=768, num_hidden_layers=4, num_attention_heads=12)
    assert max(shape.width for shape in candidate_shapes(narrow, cut=True)) == 192
    assert max(shape.width for shape in candidate_shapes(narrow)) == 384
