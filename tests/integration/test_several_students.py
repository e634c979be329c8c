"""Several students of one teacher in one process: each forward pass serves all, and changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from teaching import QUIET, method_settings, train_teacher
from transformers import PreTrainedModel, TrainerCallback
from typer.testing import CliRunner

import understudy
from understudy.cli.app import app
from understudy.errors import OutputError, RecipeError
from understudy.training import trainer as trainer_module
from understudy.training.shared import SharedTeacher

SHAPES = ["2l-16d", "1l-16d", "1l-8d"]
STAGES = ("intermediate", "prediction")
TRAINING = {**QUIET, "max_steps": 6, "learning_rate": 5e-3, "save_strategy": "steps", "save_steps": 2}
SETTINGS: dict[str, Any] = {
    **{f"{stage}.training.{key}": value for stage in STAGES for key, value in TRAINING.items()},
    "intermediate.training.gradient_accumulation_steps": 2,
    "intermediate.training.per_device_train_batch_size": 4,
    "prediction.training.per_device_train_batch_size": 8,
    "prediction.search": None,
    "dropout": 0.1,
    "data.max_length": 64,
}


@pytest.fixture(scope="module")
def teacher(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_teacher(encoder, "classification", tmp_path_factory.mktemp("teacher"))


def weights(folder: Path) -> str:
    return hashlib.sha256((folder / "student" / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.parametrize("method", ["tinybert", "joint"])
def test_students_together_are_the_same_as_alone(
    method: str, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SETTINGS
    if method == "joint":
        settings = method_settings(("joint",), max_steps=6) | {"dropout": 0.1}
    alone = {}
    for shape in SHAPES:
        folder = tmp_path / "alone" / shape
        understudy.distill(teacher, student=shape, method=method, output_dir=folder, settings=settings)
        alone[shape] = weights(folder)
    passes: list[tuple[int, ...]] = []
    read_model = trainer_module.read_model

    def count(model: PreTrainedModel, batch: Any, layers: Any, objectives: Any) -> Any:
        passes.append(tuple(batch["input_ids"].shape))
        return read_model(model, batch, layers, objectives)

    monkeypatch.setattr(trainer_module, "read_model", count)
    understudy.distill(
        teacher, student=SHAPES[0], method=method, output_dir=tmp_path / "counted", settings=settings
    )
    of_one = len(passes)
    passes.clear()
    students = understudy.distill_students(
        teacher, SHAPES, method=method, output_dir=tmp_path / "together", settings=settings
    )
    assert {name: weights(tmp_path / "together" / name) for name in students} == alone
    # Held-out losses are computed for each student, before and after.
    held_out = 0 if method == "joint" else of_one - 12
    assert len(passes) == of_one + 2 * held_out


class StopOnce(TrainerCallback):
    """Interrupts one of the students in the middle of the first stage."""

    def __init__(self, at: int) -> None:
        self.calls, self.at = 0, at

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("at", [1, 8, 20, 28])  # the last two in the prediction stage
def test_interrupted_students_continue_to_the_same_bits(at: int, teacher: Path, tmp_path: Path) -> None:
    settings = SETTINGS
    whole = understudy.distill_students(teacher, SHAPES, output_dir=tmp_path / "whole", settings=settings)
    folder = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        understudy.distill_students(
            teacher, SHAPES, output_dir=folder, settings=settings, callbacks=[StopOnce(at)]
        )
    if at == 8:  # the others have written a checkpoint after their step
        assert len(list(folder.glob("*/intermediate/training/checkpoint-*"))) >= 2
    assert (folder / SHAPES[0] / "result.json").exists() == (at == 28)
    again = understudy.distill_students(teacher, SHAPES, output_dir=folder, settings=settings)
    assert {name: weights(folder / name) for name in again} == {
        name: weights(tmp_path / "whole" / name) for name in whole
    }


def test_an_error_of_one_student_ends_all(teacher: Path, tmp_path: Path) -> None:
    class Fail(TrainerCallback):
        calls = 0

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.calls += 1
            if self.calls == 5:
                raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        understudy.distill_students(
            teacher, SHAPES, output_dir=tmp_path / "out", settings=SETTINGS, callbacks=[Fail()]
        )
    # Their folders can be used again at once.
    done = understudy.distill_students(teacher, SHAPES, output_dir=tmp_path / "out", settings=SETTINGS)
    assert list(done) == SHAPES


def test_general_students_together_are_the_same_as_alone(encoder: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the red cat and the blue dog sat on the mat\n\n" * 60, "utf-8")
    corpus = {"corpus.max_length": 16, "corpus.held_out": 0.1}
    understudy.corpus([text], tokenizer=encoder, output_dir=tmp_path / "corpus", settings=corpus)
    block = {**QUIET, "max_steps": 4, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 1}
    settings = {f"general.training.{key}": value for key, value in block.items()}
    given: dict[str, Any] = {"corpus": tmp_path / "corpus", "settings": settings}
    for shape in SHAPES[:2]:
        understudy.general(encoder, student=shape, output_dir=tmp_path / shape, **given)
    understudy.general_students(encoder, SHAPES[:2], output_dir=tmp_path / "together", **given)
    for shape in SHAPES[:2]:
        assert weights(tmp_path / "together" / shape) == weights(tmp_path / shape)
    # Finished ones are kept; others of the same name are refused.
    file = tmp_path / "together" / SHAPES[0] / "result.json"
    before = file.stat().st_mtime_ns
    understudy.general_students(encoder, SHAPES[:2], output_dir=tmp_path / "together", **given)
    assert file.stat().st_mtime_ns == before
    given["settings"] = settings | {"general.training.max_steps": 5}
    with pytest.raises(OutputError, match="another recipe, teacher or corpus"):
        understudy.general_students(encoder, SHAPES[:2], output_dir=tmp_path / "together", **given)


def test_two_processes_share_a_teacher_each(teacher: Path, tmp_path: Path) -> None:
    script = tmp_path / "both.py"
    script.write_text(
        "import json, sys, understudy\n"
        "teacher, folder, given = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])\n"
        f"understudy.distill_students(teacher, {SHAPES[:2]}, output_dir=f'{{folder}}/together', **given)\n"
        f"for shape in {SHAPES[:2]}:\n"
        "    understudy.distill(teacher, student=shape, output_dir=f'{folder}/{shape}', **given)\n",
        "utf-8",
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(script), str(teacher), str(tmp_path), json.dumps({"settings": SETTINGS})]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    for shape in SHAPES[:2]:
        assert weights(tmp_path / "together" / shape) == weights(tmp_path / shape)


def test_the_command_line_takes_several(teacher: Path, tmp_path: Path) -> None:
    options = [f"{key}={json.dumps(value)}" for key, value in SETTINGS.items()]
    command = ["distill", str(teacher), "--student", "2l-16d,1l-8d", "--output-dir", str(tmp_path / "out")]
    for option in options:
        command += ["--set", option]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    assert list(json.loads(done.stdout)["students"]) == ["2l-16d", "1l-8d"]
    assert "teacher" in done.stderr
    assert (tmp_path / "out" / "1l-8d" / "student" / "config.json").is_file()


@pytest.mark.parametrize(
    ("students", "settings", "message"),
    [
        (["1l-16d", ""], {}, "cannot be ''"),
        (["1l-16d", "a/.."], {}, "cannot be '..'"),
        (["1l-16d", "teacher/student"], {}, "cannot be 'teacher'"),
        (["1l-16d", "1l-16d"], {}, "two students are called '1l-16d'"),
        (["1l-16d", "2l-16d"], {"student.shape": "1l-8d"}, "student.shape is one student's"),
        (["1l-16d", "2l-16d"], {"student.target": "2ms"}, "student.target is one student's"),
    ],
)
def test_what_cannot_be_several_students(
    students: list[str], settings: dict[str, Any], message: str, teacher: Path, tmp_path: Path
) -> None:
    with pytest.raises(RecipeError, match=message):
        understudy.distill_students(
            teacher, students, output_dir=tmp_path / "out", settings=SETTINGS | settings
        )


def test_several_do_not_go_into_the_folder_of_one(teacher: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("task: mrpc\n", "utf-8")
    with pytest.raises(OutputError, match="holds a run of one student"):
        understudy.distill_students(teacher, SHAPES, output_dir=tmp_path, settings=SETTINGS)


def test_another_teacher_is_not_shared(teacher: Path, tmp_path: Path) -> None:
    """A student with a smaller vocabulary reads other tokens."""
    general = tmp_path / "general"
    shutil.copytree(teacher, general)
    recipe = understudy.load_recipe("tinybert-classification").model_dump(exclude_defaults=True)
    recipe |= {"student": {"shape": "1l-16d", "vocabulary": {"size": 200}}, "task": "classification"}
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe), "utf-8")
    given: dict[str, Any] = {"recipe": file, "settings": SETTINGS}
    alone = understudy.distill(teacher, student="1l-16d", output_dir=tmp_path / "alone", **given)
    assert alone.content["vocabulary"]["size"] < alone.content["vocabulary"]["of"]
    made = understudy.distill_students(
        teacher, [str(general), "1l-16d"], output_dir=tmp_path / "both", **given
    )
    assert "vocabulary" not in made["general"].content
    assert weights(tmp_path / "both" / "1l-16d") == weights(tmp_path / "alone")


def test_random_states_are_each_students_own() -> None:
    shared = SharedTeacher()
    torch.manual_seed(3)
    expected = float(torch.rand(1))
    torch.manual_seed(3)
    drawn = shared.run_all({"a": lambda: float(torch.rand(1)), "b": lambda: float(torch.rand(1))})
    assert drawn == {"a": expected, "b": expected}
