"""`plan` for every kind of recipe: what it computes is what the run does."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from kinds import EXAMPLES
from processes import Command
from teaching import TRAIN, method_settings, train_teacher

import understudy
from understudy.errors import RecipeError
from understudy.planning import plan
from understudy.workspace.results import PlanResult

CLASSIFICATION = EXAMPLES["classification"]


@pytest.fixture(scope="module")
def teacher(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_teacher(encoder, "classification", tmp_path_factory.mktemp("plan"))


def names(planned: PlanResult) -> list[str]:
    return [part["name"] for part in planned.content["parts"]]


def test_steps_tokens_and_disk_of_general_distillation_are_the_runs(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(f"the cat {n} runs. " * 9 for n in range(200)))
    settings = {"corpus.max_length": 32, "corpus.held_out": 0.1}
    corpus = {**settings, "corpus.sources": [str(tmp_path / "a.txt")], "corpus.tokenizer": str(encoder)}
    planned_corpus = understudy.plan("corpus", settings=corpus, seconds=1)
    made = understudy.corpus([], output_dir=tmp_path / "corpus", settings=corpus).content["corpus"]
    assert planned_corpus.num_tokens == pytest.approx(sum(made["tokens"].values()), rel=0.01)
    assert planned_corpus.disk["when done"] == pytest.approx(made["bytes"], rel=0.2)
    recipe = {
        "teacher": str(encoder),
        "student": {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2},
        "general.corpus": str(tmp_path / "corpus"),
        "general.training": {"num_train_epochs": 2, "report_to": "none", "per_device_train_batch_size": 8},
    }
    planned = understudy.plan("general-tinybert", settings=recipe, seconds=1)
    done = understudy.general(output_dir=tmp_path / "out", settings=recipe).content
    assert planned.steps == done["steps"]
    assert planned.num_tokens == pytest.approx(done["tokens"], rel=1e-3)
    size = sum(file.stat().st_size for file in (tmp_path / "out" / "student").glob("model*.safetensors"))
    assert planned.disk["when done"] == pytest.approx(size, rel=0.1)
    assert planned.hours["this machine"] > 0
    assert planned.content["assumed"]["A100"] == {
        "precision": "fp32",
        "flop_per_second": 19.5e12,
        "share": 0.4,
    }
    assert planned.hours["A100"] == pytest.approx(planned.flop / (19.5e12 * 0.4) / 3600, rel=1e-9)
    assert planned.memory["measured"] > planned.memory["weights"] > 0


def test_every_method_has_its_parts(teacher: Path, tmp_path: Path) -> None:
    recipe = {"teacher": str(teacher), "student": {"num_hidden_layers": 1}, "student.source": None}
    files = {f"data.{split}": str(teacher.parent / "rows.csv") for split in ("train", "dev")}
    data = {**files, "data.max_length": 64, "dropout": 0.0}
    tinybert = understudy.plan(
        "tinybert-classification", settings={**recipe, **data, "student.hidden_size": 16}, seconds=1
    )
    assert names(tinybert) == ["the teacher's answers", "scoring", "intermediate", "prediction, 3 trials"]
    settings = {**recipe, **data, "student": {"init": "cut", "num_hidden_layers": 2}}
    patient = understudy.plan("pkd-classification", settings=settings, seconds=1)
    assert names(patient)[2:] == ["soft labels, 27 trials", "patient, 12 trials"]
    alone = {"soft_labels.search": None, "patient.search": None}
    patient = understudy.plan("pkd-classification", settings={**settings, **alone}, seconds=1)
    assert names(patient)[2:] == ["patient"]
    soft = understudy.plan(
        "soft-labels-classification", settings={**settings, "soft_labels.search": None}, seconds=1
    )
    assert names(soft)[2:] == ["soft labels"]
    few = method_settings(("soft_labels",), max_steps=7)
    done = understudy.distill(
        teacher,
        method="soft-labels",
        output_dir=tmp_path / "out",
        settings={**few, "student.num_hidden_layers": 2},
    )
    soft = understudy.plan(tmp_path / "out" / "recipe.yaml", seconds=1)
    assert soft.steps == 7 == done.content["stages"]["soft-labels"]["steps"]
    assert {part["name"]: part["seconds"] > 0 for part in soft.content["parts"]} == dict.fromkeys(
        names(soft), True
    )


def test_fine_tuning_and_augmentation(encoder: Path, tmp_path: Path) -> None:
    files = {f"data.{split}": str(CLASSIFICATION.write(tmp_path)) for split in ("train", "dev")}
    settings = {**TRAIN, **files, "training.num_train_epochs": 3, "model": str(encoder)}
    planned = understudy.plan("finetune-classification", settings=settings, seconds=1)
    done = understudy.finetune(task="classification", output_dir=tmp_path / "out", settings=settings)
    assert planned.steps == done.content["steps"]
    settings = {"augment.model": str(encoder), "augment.variants": 3, "data.train": files["data.train"]}
    planned = understudy.plan("augment-classification", settings=settings, seconds=1)
    assert names(planned) == ["augmentation"]
    understudy.augment(task="classification", output_dir=tmp_path / "more", settings=settings)
    size = sum(file.stat().st_size for file in (tmp_path / "more" / "rows").iterdir())
    assert planned.disk["when done"] == pytest.approx(size, rel=0.2)


def test_the_command_says_what_is_missing_and_speaks_json(encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="teacher must be given"):
        understudy.plan("tinybert-mrpc")
    with pytest.raises(RecipeError, match="model must be given"):
        understudy.plan("finetune-mrpc")
    with pytest.raises(RecipeError, match=r"corpus\.sources and corpus\.tokenizer must be given"):
        understudy.plan("corpus")
    (tmp_path / "a.txt").write_text("the cat runs. the dog sleeps.")
    command = [sys.executable, "-m", "understudy", "plan", "corpus", "--json", "--seconds", "1"]
    command += ["--set", f"corpus.sources=[{tmp_path}/a.txt]", "--set", f"corpus.tokenizer={encoder}"]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(finished.stdout)["tokens"] == 10
    assert "This machine, measured" in finished.stderr


def test_a_whole_run_has_the_parts_of_its_stages(encoder: Path, tmp_path: Path) -> None:
    files = {f"data.{split}": str(CLASSIFICATION.write(tmp_path)) for split in ("train", "dev")}
    steps = {f"{stage}.training.max_steps": 3 for stage in ("finetune", "intermediate", "prediction")}
    settings = {**files, **steps, "finetune.model": str(encoder), "data.max_length": 32}
    settings |= {"student": {"init": "cut", "num_hidden_layers": 1}}
    planned = understudy.plan("desk-classification", settings=settings, seconds=1)
    stages = ["fine-tuning", "the teacher's answers", "scoring", "intermediate", "prediction"]
    assert names(planned) == stages
    assert planned.steps == 9
    teacher = sum(file.stat().st_size for file in encoder.glob("*.safetensors"))
    assert planned.disk["when done"] > teacher


def test_a_whole_run_that_augments_is_asked_for_stage_by_stage() -> None:
    with pytest.raises(RecipeError, match="does not cost a whole run that augments"):
        understudy.plan("tinybert4-mrpc")


def terminate_inside(temporary: str) -> None:
    """Make a plan send itself SIGTERM as soon as it has its folder."""
    tempfile.tempdir = temporary

    def measure(_: Any, folder: Path, __: float) -> None:
        assert folder.is_dir()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    plan._measure = measure  # type: ignore[assignment]


def test_a_plan_that_is_terminated_leaves_nothing_behind(teacher: Path, tmp_path: Path) -> None:
    file = CLASSIFICATION.write(tmp_path)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    arguments = ["plan", "tinybert-classification"]
    given = {"teacher": teacher, "data.train": file, "data.dev": file, "student.shape": "2l-16d"}
    for name, value in given.items():
        arguments += ["--set", f"{name}={value}"]
    command = Command(arguments, before=functools.partial(terminate_inside, str(temporary)))
    assert command.wait(120) == 130
    assert "Traceback" not in command.output
    assert not list(temporary.iterdir())
    command.forget()
