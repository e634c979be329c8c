"""When a stage is made, gone on with, or left as it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from understudy.errors import ModelError, OutputError, RecipeError
from understudy.pipeline.run import _make, run_recipe, start_state
from understudy.pipeline.run_stages import Stage, dump
from understudy.recipe.load import load_recipe
from understudy.workspace.folders import STATE, check_free


class Kitchen:
    """A stage that notes what it found when it was called, and may be interrupted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inputs: dict[str, str] = {"data": "a"}
        self.fails = False
        self.found: list[list[str]] = []
        (folder / STATE).write_text("{}")

    def work(self) -> None:
        own = self.folder / "dish"
        self.found.append(sorted(file.name for file in own.glob("*")))
        own.mkdir(exist_ok=True)
        (own / "sauce").mkdir(exist_ok=True)
        (own / "half").write_text(json.dumps(self.inputs))
        if self.fails:
            raise ModelError("the kitchen burns")
        (own / "result.json").write_text(json.dumps(self.inputs))

    def make(self) -> bool:
        parts = {"sauce": lambda: {"data": self.inputs["data"]}}
        stage = Stage("dish", "Cooking", lambda: self.inputs, "dish/result.json", self.work, parts=parts)
        return _make(stage, self.folder, "[1/1]")


@pytest.fixture
def kitchen(tmp_path: Path) -> Kitchen:
    return Kitchen(tmp_path)


def test_what_is_finished_and_unchanged_is_left(kitchen: Kitchen) -> None:
    assert kitchen.make()
    assert not kitchen.make()
    assert kitchen.found == [[]]


def test_what_was_interrupted_goes_on(kitchen: Kitchen) -> None:
    kitchen.fails = True
    with pytest.raises(ModelError):
        kitchen.make()
    kitchen.fails = False
    assert kitchen.make()
    assert kitchen.found == [[], ["half", "sauce"]]


def test_other_inputs_start_anew(kitchen: Kitchen) -> None:
    kitchen.make()
    kitchen.inputs = {"data": "b"}
    assert kitchen.make()
    assert kitchen.found == [[], []]


def test_a_part_stays_where_its_own_inputs_are_as_they_were(kitchen: Kitchen) -> None:
    kitchen.make()
    kitchen.inputs = {"data": "a", "garnish": "b"}
    assert kitchen.make()
    assert kitchen.found == [[], ["sauce"]]


def test_an_older_result_is_not_taken_for_one_that_was_interrupted(kitchen: Kitchen) -> None:
    """Made, changed, interrupted: the result of before must not stand for what never came to be."""
    kitchen.make()
    kitchen.inputs, kitchen.fails = {"data": "b"}, True
    with pytest.raises(ModelError):
        kitchen.make()
    kitchen.fails = False
    assert kitchen.make()
    assert json.loads((kitchen.folder / "dish" / "result.json").read_text()) == {"data": "b"}


def test_the_order_of_settings_and_naming_the_guessed_columns_change_nothing() -> None:
    columns = {"text": "a", "label": "b"}
    named = [("data.columns.text", "a"), ("data.columns.label", "b")]
    said = [
        json.dumps(dump(load_recipe("desk-classification", dict(settings)), columns), sort_keys=True)
        for settings in (named, named[::-1], [])
    ]
    assert said[0] == said[1] == said[2]
    other = dump(load_recipe("desk-classification", {}), {"text": "c", "label": "b"})
    assert json.dumps(other, sort_keys=True) != said[0]


def test_a_folder_of_another_command_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("task: mrpc\n")
    with pytest.raises(OutputError, match="understudy did not write it"):
        check_free(tmp_path, (STATE,))
    (tmp_path / STATE).write_text("{}")
    check_free(tmp_path, (STATE,))


def test_what_run_cannot_do_is_refused(tmp_path: Path, encoder: Path) -> None:
    with pytest.raises(RecipeError, match="finetune-mrpc has no method"):
        run_recipe(None, student=None, task=None, data=None, recipe="finetune-mrpc", settings=())
    settings = {"soft_labels.predictions": "answers.parquet", "student.source": str(encoder)}
    with pytest.raises(RecipeError, match="distill --predictions"):
        run_recipe(
            None, student=None, task=None, data=None, recipe="soft-labels-classification", settings=settings
        )


def test_an_encoder_is_fine_tuned_as_the_recipe_says_or_as_finetune_would(encoder: Path) -> None:
    options = {"student": None, "task": None, "data": "glue", "settings": ()}
    mine = run_recipe(encoder, recipe="desk-sst2", **options)
    assert mine.finetune is not None
    assert mine.finetune.model == str(encoder)
    assert mine.finetune.training == load_recipe("desk-sst2").finetune.training
    plain = run_recipe(encoder, recipe=None, **options | {"task": "mrpc"})
    assert plain.finetune is not None
    assert plain.finetune.training == load_recipe("finetune-mrpc").training


def test_what_a_killed_process_left_of_the_notes_is_removed(tmp_path: Path) -> None:
    left = tmp_path / f"{STATE}.999999999-ab.writing"
    left.write_text("{")
    start_state(tmp_path, overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == [STATE]


def test_a_model_that_was_removed_may_be_made_anew_with_other_bits(tmp_path: Path) -> None:
    """As on another machine."""
    model, weights = tmp_path / "teacher", iter([b"here", b"there"])

    def train() -> None:
        model.mkdir(exist_ok=True)
        (model / "model.safetensors").write_bytes(next(weights))
        (model / "result.json").write_text("{}")

    def make() -> bool:
        stage = Stage("teacher", "Fine-tuning", dict, "teacher/result.json", train, model=str(model))
        return _make(stage, tmp_path, "[1/1]")

    start_state(tmp_path, overwrite=False)
    assert make()
    assert not make()
    (model / "model.safetensors").write_bytes(b"hers")
    with pytest.raises(ModelError, match=f"remove {model}"):
        make()
    shutil.rmtree(model)
    assert make()
    assert not make()


def test_a_stage_that_is_overwritten_is_not_said_to_have_changed(
    kitchen: Kitchen, caplog: pytest.LogCaptureFixture
) -> None:
    kitchen.make()
    start_state(kitchen.folder, overwrite=True)
    with caplog.at_level("INFO"):
        assert kitchen.make()
    assert "have changed" not in caplog.text
