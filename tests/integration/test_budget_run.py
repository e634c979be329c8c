"""A student for a target: shapes are timed on this machine, and the chosen one is within it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from exported import write_encoder
from teaching import train_teacher
from transformers import AutoConfig, PreTrainedTokenizerFast

import understudy
from understudy.planning.budget import (
    Shape,
    candidate_shapes,
    measure_shapes,
    measured_costs,
    with_target,
)
from understudy.recipe.load import load_recipe
from understudy.stages.distill import finished_distillation


def test_a_target_makes_a_shape(
    encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache"))
    teacher = train_teacher(encoder, "classification", tmp_path)
    training: dict[str, Any] = {"max_steps": 2, "report_to": "none", "disable_tqdm": True}
    settings = {
        f"{stage}.training.{name}": value
        for stage in ("intermediate", "prediction")
        for name, value in training.items()
    }
    config = AutoConfig.from_pretrained(teacher)
    costs = measured_costs(str(teacher), 4)
    smallest, *_, largest = candidate_shapes(config)
    between = (costs.predict(smallest).megabytes + costs.predict(largest).megabytes) / 2
    with caplog.at_level(logging.INFO):
        done = understudy.distill(
            teacher,
            output_dir=tmp_path / "out",
            settings=settings
            | {"student.target": f"{between:.4f}MB", "prediction.search.learning_rate": None},
        )
    assert "chosen" in caplog.text
    made = AutoConfig.from_pretrained(tmp_path / "out" / "student")
    shape = Shape(made.num_hidden_layers, made.hidden_size)
    assert shape in candidate_shapes(config)
    assert shape != largest
    assert done.content["stages"]
    # The same command keeps its shape, even if the machine is timed anew.
    recipe = load_recipe(tmp_path / "out" / "recipe.yaml")
    assert (recipe.student.target, recipe.student.shape) == (f"{between:.4f}MB", shape.name)
    student = recipe.student.model_copy(update={"shape": None})
    again = with_target(recipe.model_copy(update={"student": student}), tmp_path / "out")
    assert again.student == recipe.student
    finished = finished_distillation(recipe.model_copy(update={"student": student}), tmp_path / "out")
    assert finished is not None


def test_sizes_of_other_shapes_are_predicted(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times are compared by a benchmark; sizes do not depend on the moment."""
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache"))
    model = str(write_encoder("bert", tokenizer, tmp_path / "bert"))
    costs = measured_costs(model, 8)
    other = Shape(1, 24)
    (measured,) = measure_shapes(model, [other], 8)
    assert costs.predict(other).megabytes == pytest.approx(measured.megabytes, rel=0.1)
    assert costs.predict(other).milliseconds > 0
