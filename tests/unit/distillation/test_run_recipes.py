from __future__ import annotations

from pathlib import Path

import pytest

from understudy.distillation.recipes import run_recipe_name

FILES = {"data.train": "train.csv"}


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
