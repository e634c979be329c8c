"""Whole runs of several students: at once, and from large to small until one loses too much."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import understudy
from understudy.cli.app import app
from understudy.errors import PreflightError, RecipeError
from understudy.pipeline import students as students_module
from understudy.pipeline.student import Distilled
from understudy.planning.budget import smaller_shapes
from understudy.predictor import Predictor
from understudy.recipe.recipe import Recipe
from understudy.report.frontier import holds

pytestmark = pytest.mark.usefixtures("short_timings")

TRAINING = {"per_device_train_batch_size": 8, "learning_rate": 5e-3, "report_to": "none", "max_steps": 8}


def training(**changes: Any) -> dict[str, Any]:
    return {
        f"{stage}.training.{name}": value
        for stage in ("finetune", "intermediate", "prediction")
        for name, value in (TRAINING | changes).items()
    }


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rows") / "train.csv"
    words = {"good": "pos", "great": "pos", "bad": "neg", "awful": "neg"}
    lines = [(f"the {noun} was {word}", label) for noun in ("film", "cat", "dog", "city", "river", "movie")
             for word, label in words.items()]  # fmt: skip
    with file.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([("text", "label"), *lines])
    return file


def settings() -> dict[str, Any]:
    return {
        **training(),
        "finetune.training.max_steps": 40,
        "finetune.dropout": 0.0,
        "prediction.search": None,
        "data.max_length": 32,
        "export.tolerance": 100.0,
        "export.int4": "embeddings",
    }


@pytest.fixture(scope="module")
def compared(encoder: Path, rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("runs") / "compared"
    command = ["run", str(encoder), "--train", str(rows), "--dev", str(rows), "--student", "2l-16d,1l-16d"]
    for name, value in settings().items():
        command += ["--set", f"{name}={json.dumps(value)}"]
    done = CliRunner().invoke(app, [*command, "--tolerate", "100", "--output-dir", str(output), "--json"])
    assert done.exit_code == 0, (done.exception, done.output)
    assert json.loads(done.stdout)["chosen"] in ("2l-16d", "1l-16d", None)
    said = " ".join(done.stderr.split())
    assert "report.html" in said
    assert "teacher, int8" in said
    return output


def test_all_learn_from_one_teacher_and_are_compared(compared: Path) -> None:
    content = json.loads((compared / "result.json").read_text("utf-8"))
    assert list(content["students"]) == ["2l-16d", "1l-16d"]
    # The teacher was fine-tuned once.
    assert (compared / "teacher" / "result.json").is_file()
    assert not list(compared.glob("*l-16d/teacher"))
    for name, one in content["students"].items():
        assert Predictor(compared / name / "artifact")("the film was good")["label"] in ("pos", "neg")
        assert one["holds"] == ("student" not in one["run"]["constant"])
    holding = [name for name, one in content["students"].items() if one["holds"]]
    fastest = min(holding, key=lambda name: content["students"][name]["milliseconds"], default=None)
    assert content["chosen"] == fastest
    page = (compared / "report.html").read_text("utf-8")
    assert all(f"<a href='{name}/report.html'>" in page for name in content["students"])
    assert page.count("<svg") == 2


def test_nothing_is_made_again(compared: Path, encoder: Path, rows: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in compared.glob("*/distilled/result.json")}
    assert len(before) == 2
    found = understudy.run_students(
        encoder,
        ["2l-16d", "1l-16d"],
        data={"train": str(rows), "dev": str(rows)},
        settings=settings() | {"tolerate": 100.0},
        output_dir=compared,
    )
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert found.students["1l-16d"]("the film was bad")["label"] in ("pos", "neg")


def test_the_search_ends_with_the_first_that_loses_too_much(
    compared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs are those from above; only their order is looked at."""
    made = json.loads((compared / "result.json").read_text("utf-8"))["students"]
    learnt: list[str] = []

    def run_from_recipe(recipe: Recipe, output_dir: Path, **_: Any) -> Distilled:
        learnt.append(str(recipe.student.shape))
        assert recipe.tolerate == 3.0
        shutil.copytree(compared / "2l-16d", output_dir)
        return Distilled(output_dir, made["2l-16d"]["run"])

    monkeypatch.setattr(students_module, "run_from_recipe", run_from_recipe)
    monkeypatch.setattr(students_module, "holds", lambda run, lose: len(learnt) < 2)
    found = understudy.run_students(
        compared / "teacher",
        ["2l-16d", "1l-16d", "1l-8d"],
        lose=3.0,
        settings={name: value for name, value in settings().items() if not name.startswith("finetune")},
        output_dir=tmp_path / "out",
    )
    assert learnt == ["2l-16d", "1l-16d"] == list(found.content["students"])
    assert found.content["lose"] == 3.0


def test_shapes_of_a_search_become_smaller() -> None:
    from transformers import BertConfig

    config = BertConfig(hidden_size=384, num_hidden_layers=12, num_attention_heads=12, intermediate_size=1536)
    assert [shape.name for shape in smaller_shapes(config)] == [
        "6l-384d",
        "4l-336d",
        "3l-288d",
        "2l-240d",
        "2l-144d",
    ]


def test_exactly_the_allowed_points_may_be_lost() -> None:
    score = {"accuracy": {"value": 0.93}}
    shipped = {"accuracy": {"value": 0.92}}
    run = {
        "models": [
            {"model": "teacher", "scores": score},
            {"model": "student", "scores": shipped},
            {"model": "student, int8", "scores": shipped},
        ],
        "split": "dev",
        "difference": {"dev": {"accuracy": {"value": 0.92 - 0.93, "low": -0.02, "high": 0.0}}},
        "constant": [],
    }
    assert holds(run, 1.0)
    assert not holds(run, 0.9)


def test_all_students_are_checked_before_the_first_is_trained(
    encoder: Path, rows: Path, tmp_path: Path
) -> None:
    with pytest.raises(PreflightError, match="1l-17d, student"):
        understudy.run_students(
            encoder,
            ["1l-16d", "1l-17d"],
            lose=1.0,
            data={"train": str(rows), "dev": str(rows)},
            settings=settings(),
            output_dir=tmp_path / "out",
        )
    assert not (tmp_path / "out").exists()


def test_what_may_be_lost_is_said_once(encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="Leave one out"):
        understudy.run_students(encoder, lose=1.0, settings={"tolerate": 3.0}, output_dir=tmp_path / "out")


def test_a_single_student_cannot_search(encoder: Path, rows: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="understudy run … --target"):
        understudy.distill(
            encoder,
            task="classification",
            data={"train": str(rows), "dev": str(rows)},
            settings={"student.target": "lose 1 point"},
            output_dir=tmp_path / "out",
        )
