from __future__ import annotations

from pathlib import Path

import pytest

from understudy.distillation.recipes import distill_recipe, run_recipe_name
from understudy.errors import RecipeError
from understudy.recipe.recipe import Recipe

FILES = {"data.train": "train.csv"}


def distilled(
    teacher: str | Path, method: str | None, recipe: str | None, task: str | None = "mrpc"
) -> Recipe:
    return distill_recipe(
        teacher,
        student=None,
        method=method,
        predictions=None,
        task=task,
        data=None,
        recipe=recipe,
        settings={},
    )


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (None, "desk-classification"),
        ("regression", "desk-regression"),
        ("multi-label", "desk-multi-label"),
        ("mrpc", None),
    ],
)
def test_your_own_files_have_a_recipe_by_their_kind(task: str | None, expected: str | None) -> None:
    assert run_recipe_name("encoder", task, None, FILES) == expected


def test_a_teacher_knows_the_kind(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("task: regression\ndata: {train: a.csv}\n", "utf-8")
    assert run_recipe_name(tmp_path, None, None, FILES) == "desk-regression"


def test_a_named_recipe_and_published_data_are_left_alone() -> None:
    assert run_recipe_name("encoder", None, "mine.yaml", FILES) == "mine.yaml"
    assert run_recipe_name("encoder", "sst2", None, {}) is None


def test_a_recipe_brings_its_method() -> None:
    assert distilled("org/teacher", None, None).method == "tinybert"
    assert distilled("org/teacher", None, "joint-classification").method == "joint"
    assert distilled("org/teacher", "patient", None).method == "patient"
    with pytest.raises(RecipeError, match="its method is joint"):
        distilled("org/teacher", "tinybert", "joint-classification")


def test_the_recipe_of_a_kind_serves_its_tasks(tmp_path: Path) -> None:
    assert distilled("org/teacher", None, "joint-classification").task == "mrpc"
    with pytest.raises(RecipeError, match="--task mrpc and the recipe joint-regression"):
        distilled("org/teacher", None, "joint-regression")
    (tmp_path / "recipe.yaml").write_text("task: cola\ndata: {source: glue}\n", "utf-8")
    built = distilled(tmp_path, None, "joint-classification", task=None)
    assert (built.task, built.data.source) == ("cola", "glue")
