"""`distill` from a tiny teacher: every kind, killed in the middle, on two processes, and misused."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from kinds import EXAMPLES, same, write_classification
from processes import Command, run_command
from safetensors.torch import load_file
from teaching import DISTIL, method_settings, train_teacher
from transformers import AutoModelForSequenceClassification, AutoTokenizer, TrainerCallback

import understudy
from understudy.data.load import cache_folder, load_data
from understudy.data.settings import DataSettings
from understudy.distillation import methods, teacher_cache
from understudy.errors import ModelError, OutputError, RecipeError
from understudy.evaluation.score import prepare_split, score_model
from understudy.kinds.tasks import get_task
from understudy.models.pretrained import load_model


@pytest.fixture(scope="module")
def teacher(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("taught")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNDERSTUDY_CACHE", str(folder / "cache"))
        return train_teacher(encoder, "classification", folder)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_student_of_every_kind_learns_and_is_an_ordinary_model(
    kind: str, encoder: Path, tmp_path: Path
) -> None:
    example, task = EXAMPLES[kind], get_task(EXAMPLES[kind].task)
    teacher = train_teacher(encoder, kind, tmp_path)

    def distil(name: str, steps: int) -> understudy.workspace.result.StageResult:
        return understudy.distill(
            teacher,
            student="1l-16d",
            output_dir=tmp_path / name,
            settings=DISTIL
            | {"intermediate.training.max_steps": steps, "prediction.training.max_steps": 2 * steps},
        )

    start, result = distil("start", 1), distil(example.task, example.steps)
    headline = task.headline
    assert result.scores["dev"][headline] > start.scores["dev"][headline]
    losses = result.content["stages"]["intermediate"]["losses"]
    assert list(losses) == ["loss", "embeddings", "attention_1", "hidden_1"]
    assert all(figure["last"] < figure["first"] for figure in losses.values())
    held_out = result.content["stages"]["intermediate"]["held_out"]
    assert list(held_out) == list(losses)[1:]
    assert all(figure["last"] < figure["first"] for figure in held_out.values())
    terms = ["loss", "starts", "ends"] if task.kind.has_windows else ["loss", "predictions"]
    assert list(result.content["stages"]["prediction"]["losses"]) == terms

    folder = tmp_path / example.task / "student"
    assert understudy.evaluate(folder).scores["dev"] == pytest.approx(result.scores["dev"])
    file = str(tmp_path / next(path.name for path in tmp_path.glob("rows.*")))
    data = load_data(task, DataSettings(dev=file), ["dev"], labels=result.content["labels"])
    model = load_model(str(folder), task, data.labels, fine_tuned=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    split = prepare_split(task, data.splits["dev"], tokenizer, max_length=64)
    ours = score_model(model, tokenizer, split).predictions.values
    if task.name == "squad2":  # the helper knows an empty answer by the folder's name
        folder = folder.rename(folder.with_name("squad2"))
    predict = example.predict(folder)
    with torch.inference_mode():
        theirs = [predict(row) for row in data.splits["dev"]]
    assert all(same(one, other) for one, other in zip(ours, theirs, strict=True)), (ours, theirs)


@pytest.mark.parametrize("kind", ["pair", "squad2", "token-classification"])
def test_a_saved_student_needs_no_data_to_be_called(kind: str, encoder: Path, tmp_path: Path) -> None:
    teacher = train_teacher(encoder, kind, tmp_path)
    settings = DISTIL | {"intermediate.training.max_steps": 1, "prediction.training.max_steps": 1}
    student = understudy.distill(teacher, student="1l-16d", output_dir=tmp_path / "out", settings=settings)
    for file in tmp_path.glob("rows.*"):
        file.unlink()
    given = {
        "pair": ("the red cat", "the blue cat"),
        "squad2": ("where is anna", "anna lives in rome"),
        "token-classification": "Anna lives in Paris",
    }
    answer = student(given[kind])
    assert set(answer) >= {"pair": {"label"}, "squad2": {"answer", "has_answer"}}.get(kind, {"entities"})


def test_what_is_left_behind(teacher: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    settings = DISTIL | {
        "intermediate.training.max_steps": 20,
        "prediction.training.max_steps": 10,
        "prediction.training.learning_rate": None,
        "prediction.search": {"learning_rate": [0.0, 5e-3], "seed": [1, 2]},
    }
    result = understudy.distill(teacher, student="1l-16d", output_dir=output, settings=settings)
    assert json.loads((output / "result.json").read_text()) == json.loads(json.dumps(result.content))
    # The teacher's recipe knew the task and the data.
    assert result.content["task"] == "classification"
    assert understudy.load_recipe(output / "recipe.yaml").data.train == (
        understudy.load_recipe(teacher / "recipe.yaml").data.train
    )
    content = result.content
    assert content["parameters"]["student"] < content["parameters"]["teacher"]
    assert content["against"]["model"] == str(teacher)
    assert set(content["difference"]["dev"]) == set(content["scores"]["dev"])
    trials = content["stages"]["prediction"]["trials"]
    assert len(trials) == 4
    assert [trial["score"] for trial in trials] == sorted((t["score"] for t in trials), reverse=True)
    assert trials[0]["score"] == result.scores["dev"]["accuracy"]
    with (output / "intermediate" / "losses.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["step"] for line in lines] == ["10", "20"]
    assert set(lines[0]) == {"step", "epoch", "loss", "embeddings", "attention_1", "hidden_1"}
    # Projections in a file of their own, in no way inside the model, and none with what is shipped.
    assert set(load_file(output / "intermediate" / "student" / "projections.safetensors")) == {
        "linears.0.weight",
        "linears.0.bias",
    }
    assert not any("linears" in name for name in load_file(output / "student" / "model.safetensors"))
    assert not (output / "student" / "projections.safetensors").exists()
    assert not list(output.rglob("checkpoint-*"))
    assert not (output / "prediction" / "trials").exists()
    config = json.loads((output / "student" / "config.json").read_text())
    assert "understudy" not in json.dumps(config)
    assert config["hidden_dropout_prob"] == 0.1


def test_the_student_loads_where_understudy_is_not_installed(teacher: Path, tmp_path: Path) -> None:
    settings = DISTIL | {"intermediate.training.max_steps": 2, "prediction.training.max_steps": 2}
    understudy.distill(teacher, student="1l-16d", output_dir=tmp_path / "out", settings=settings)
    student = tmp_path / "out" / "student"
    code = (
        "import sys; sys.modules['understudy'] = None\n"  # importing it fails from here on
        "from transformers import pipeline\n"
        f"print(pipeline('text-classification', {str(student)!r})('a good film')[0]['label'])\n"
    )
    finished = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert finished.stdout.strip() in ("neg", "pos")


def command(
    teacher: Path, output: Path, settings: dict[str, Any], how: tuple[str, str] = ("--student", "1l-16d")
) -> list[str]:
    parts = [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    return ["distill", str(teacher), *how, *parts, "--output-dir", str(output)]


def weights_of(output: Path) -> dict[str, torch.Tensor]:
    return load_file(output / "student" / "model.safetensors")


def same_weights(first: Path, second: Path) -> bool:
    one, other = weights_of(first), weights_of(second)
    return all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_killed_again_and_again_ends_in_the_same_weights(teacher: Path, tmp_path: Path) -> None:
    """Three points of each stage: early, inside an epoch, late; and between trials of a search."""
    settings = DISTIL | {
        "dropout": 0.1,
        "prediction.training.learning_rate": None,
        "prediction.search": {"learning_rate": [1e-3, 5e-3]},
        **{
            f"{stage}.training.{key}": value
            for stage in ("intermediate", "prediction")
            for key, value in {
                "per_device_train_batch_size": 3,  # three steps an epoch: 7 lies inside one
                "save_strategy": "steps",
                "save_steps": 7,
                "max_steps": 140,
            }.items()
        },
    }
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    run_command(command(teacher, undisturbed, settings), environment)
    points = [
        "intermediate/training/checkpoint-7/seal.json",
        "intermediate/training/checkpoint-70/model.safetensors",  # sealed or not
        "intermediate/training/checkpoint-133/seal.json",
        "prediction/trials/0/training/checkpoint-14/optimizer.pt",
        "prediction/trials/0/student/config.json",
        "prediction/trials/1/training/checkpoint-77/seal.json",
    ]
    for point in points:
        process = Command(command(teacher, disturbed, settings), environment)
        process.kill_when((disturbed / point).exists)
        assert not (disturbed / "result.json").exists()
    assert "Continuing from" in run_command(command(teacher, disturbed, settings), environment)
    expected, got = weights_of(undisturbed), weights_of(disturbed)
    assert expected.keys() == got.keys()
    assert all(torch.equal(expected[name], got[name]) for name in expected)
    results = [json.loads((folder / "result.json").read_text()) for folder in (undisturbed, disturbed)]
    assert results[0]["stages"]["prediction"]["trials"] == results[1]["stages"]["prediction"]["trials"]


class Interrupt(TrainerCallback):
    """Ctrl-C in a step, once or twice."""

    def __init__(self, times: int) -> None:
        self.times = times

    def on_substep_end(self, *_: Any, **__: Any) -> None:
        self.on_pre_optimizer_step()

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        for _number in range(self.times):
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_saves_a_checkpoint_from_which_the_run_ends_in_the_same_weights(
    teacher: Path, tmp_path: Path
) -> None:
    settings = DISTIL | {"intermediate.training.max_steps": 5, "prediction.training.max_steps": 3}
    settings |= {"dropout": 0.1, "intermediate.training.save_strategy": "no"}

    def distil(name: str, *callbacks: TrainerCallback) -> None:
        understudy.distill(
            teacher,
            student="1l-16d",
            output_dir=tmp_path / name,
            settings=settings,
            callbacks=callbacks,
        )

    before = signal.getsignal(signal.SIGINT)
    distil("whole")
    for _ in range(2):  # after the first step, then after the second
        with pytest.raises(KeyboardInterrupt):
            distil("disturbed", Interrupt(1))
    saved = sorted(path.name for path in (tmp_path / "disturbed").glob("intermediate/training/checkpoint-*"))
    assert "checkpoint-2" in saved
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        distil("disturbed", Interrupt(2))  # at once: the third step is not finished
    assert not (tmp_path / "disturbed" / "intermediate" / "training" / "checkpoint-3").exists()
    distil("disturbed")
    assert same_weights(tmp_path / "whole", tmp_path / "disturbed")


def test_two_processes_learn_what_one_learns(teacher: Path, tmp_path: Path) -> None:
    settings = DISTIL | {
        "intermediate.training.max_steps": 10,
        "prediction.training.max_steps": 10,
        "prediction.training.learning_rate": None,
        "prediction.search": {"learning_rate": [1e-2, 2e-2]},
        "intermediate.training.learning_rate": 1e-2,
        # Adam makes a step of rounding where a gradient is zero in truth, as a key's bias has.
        "intermediate.training.optim": "sgd",
        "prediction.training.optim": "sgd",
        # What one process sees in a batch of 4, two see in batches of 2.
        "intermediate.training.per_device_train_batch_size": 4,
        "prediction.training.per_device_train_batch_size": 4,
    }
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    one, two = tmp_path / "one", tmp_path / "two"
    run_command(command(teacher, one, settings), environment)
    settings |= {
        f"{stage}.training.per_device_train_batch_size": 2 for stage in ("intermediate", "prediction")
    }
    script = tmp_path / "main.py"
    script.write_text("from understudy.cli import main\nmain()\n")
    distributed = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    finished = subprocess.run(
        [*distributed, str(script), *command(teacher, two, settings)],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    expected, got = weights_of(one), weights_of(two)
    assert all(torch.allclose(expected[name], got[name], atol=1e-5) for name in expected)
    results = [json.loads((folder / "result.json").read_text()) for folder in (one, two)]
    first, second = (result["stages"]["intermediate"]["losses"]["loss"]["last"] for result in results)
    assert first == pytest.approx(second, rel=1e-3)


def test_a_saved_student_of_another_family_goes_on(teacher: Path, tmp_path: Path) -> None:
    """DistilBERT takes no token types, and is read by its own names."""
    from transformers import DistilBertConfig, DistilBertModel

    tokenizer = AutoTokenizer.from_pretrained(teacher)
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=16, n_layers=1, n_heads=2, hidden_dim=32, max_position_embeddings=128
    )
    torch.manual_seed(0)
    DistilBertModel(config).save_pretrained(tmp_path / "general")
    tokenizer.save_pretrained(tmp_path / "general")
    settings = DISTIL | {"intermediate.training.max_steps": 60, "prediction.training.max_steps": 60}
    result = understudy.distill(
        teacher, student=str(tmp_path / "general"), output_dir=tmp_path / "out", settings=settings
    )
    assert result.scores["dev"]["accuracy"] > 0.5
    student = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out" / "student")
    assert student.config.model_type == "distilbert"


def test_a_student_cut_from_its_teacher_starts_where_others_arrive(
    teacher: Path, encoder: Path, tmp_path: Path
) -> None:
    def distil(name: str, *, projection: str, **student: Any) -> understudy.workspace.result.StageResult:
        settings = DISTIL | {"student": student, "intermediate.projection": projection}
        settings |= {f"{stage}.training.max_steps": 5 for stage in ("intermediate", "prediction")}
        settings |= {"intermediate.training.logging_steps": 1}
        return understudy.distill(teacher, output_dir=tmp_path / name, settings=settings)

    def first(result: understudy.workspace.result.StageResult) -> float:
        return result.content["stages"]["intermediate"]["held_out"]["embeddings"]["first"]

    cut = distil("cut", projection="none", init="cut", num_hidden_layers=1)
    sizes = {"num_hidden_layers": 1, "hidden_size": 24, "intermediate_size": 40}
    narrow = distil("narrow", projection="shared", init="cut", **sizes)
    sizes = {"num_hidden_layers": 2, "layers": "first"}
    from_encoder = distil("pretrained", projection="none", init="cut", source=str(encoder), **sizes)
    sizes = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64}
    drawn = distil("drawn", projection="none", **sizes)
    assert cut.content["parameters"]["student"] > narrow.content["parameters"]["student"]
    assert drawn.content["parameters"]["student"] == cut.content["parameters"]["student"]
    assert set(from_encoder.content["hashes"]) == {"teacher", "train", "dev", "student"}
    weights = load_file(tmp_path / "cut" / "student" / "model.safetensors")
    taught = load_file(teacher / "model.safetensors")
    name = "bert.embeddings.word_embeddings.weight"
    drawn_weights = load_file(tmp_path / "drawn" / "student" / "model.safetensors")
    assert (weights[name] - taught[name]).abs().mean() < (drawn_weights[name] - taught[name]).abs().mean() / 5
    assert first(cut) == 0.0
    assert 0 < first(narrow) < first(drawn)
    assert first(drawn) > 0.1


@pytest.mark.parametrize("kind", EXAMPLES)
def test_soft_labels_and_patience_for_every_kind(kind: str, encoder: Path, tmp_path: Path) -> None:
    example, task = EXAMPLES[kind], get_task(EXAMPLES[kind].task)
    teacher = train_teacher(encoder, kind, tmp_path)
    plain = understudy.distill(
        teacher,
        method="soft-labels",
        output_dir=tmp_path / "soft",
        settings=method_settings(("soft_labels",), max_steps=example.steps)
        | {"student.num_hidden_layers": 1, "student.source": str(encoder)},
    )
    assert list(plain.content["stages"]["soft-labels"]["losses"]) == ["loss", "labels", "soft_labels"]
    patient = understudy.distill(
        teacher,
        method="patient",
        output_dir=tmp_path / "patient",
        settings=method_settings(("soft_labels", "patient"), max_steps=example.steps)
        | {"student.num_hidden_layers": 2, "student.source": str(encoder), "patient.beta": 10},
    )
    losses = patient.content["stages"]["patient"]["losses"]
    assert list(losses) == ["loss", "labels", "soft_labels", "patient_1"]
    assert losses["labels"]["last"] < losses["labels"]["first"]
    start = understudy.evaluate(teacher).scores["dev"][task.headline]
    assert patient.scores["dev"][task.headline] > 0.5 * start
    assert understudy.evaluate(tmp_path / "patient").scores["dev"] == pytest.approx(patient.scores["dev"])


@pytest.mark.parametrize("kind", EXAMPLES)
def test_all_in_one_sum_for_every_kind(kind: str, encoder: Path, tmp_path: Path) -> None:
    example, task = EXAMPLES[kind], get_task(EXAMPLES[kind].task)
    teacher = train_teacher(encoder, kind, tmp_path)
    joint = understudy.distill(
        teacher,
        method="joint",
        student="1l-16d",
        output_dir=tmp_path / "joint",
        # A fitted student begins with layers so near that they part again while their weight falls.
        settings=method_settings(("joint",), max_steps=2 * example.steps) | {"student.fit": False},
    )
    losses = joint.content["stages"]["joint"]["losses"]
    terms = ["embeddings", "attention_1", "hidden_1", "predictions", "labels"]
    assert list(losses) == ["loss", *terms]
    assert all(figure["last"] < figure["first"] for figure in losses.values())
    start = understudy.evaluate(teacher).scores["dev"][task.headline]
    assert joint.scores["dev"][task.headline] > 0.5 * start


@pytest.mark.parametrize("method", ["soft-labels", "patient", "joint"])
def test_class_weights_are_in_the_loss_against_labels(
    method: str, teacher: Path, encoder: Path, tmp_path: Path
) -> None:
    """Half of the rows are `pos`: a weight of 3 beside 1 is 1.5 beside 0.5, in the first step's loss too."""
    blocks = {"soft-labels": ("soft_labels",), "patient": ("soft_labels", "patient"), "joint": ("joint",)}
    start = {"student.num_hidden_layers": 2, "student.source": str(encoder)} if method != "joint" else {}
    terms = {}
    for weight in (1.0, 3.0, 9.0):
        result = understudy.distill(
            teacher,
            method=method,
            student="1l-16d" if method == "joint" else None,
            output_dir=tmp_path / str(weight),
            settings=method_settings(blocks[method], max_steps=1, logging_steps=1)
            | {"class_weights": {"pos": weight}}
            | start,
        )
        terms[weight] = {
            name: figure["first"] for name, figure in result.content["stages"][method]["losses"].items()
        }
        given = result.content["class_weights"]
        assert given == pytest.approx({"neg": 2 / (1 + weight), "pos": 2 * weight / (1 + weight)})
    # mean(w · L) is linear in the weight of `pos`: 1.0, 1.5 and 1.8.
    one, three, nine = (terms[weight]["labels"] for weight in (1.0, 3.0, 9.0))
    assert one != pytest.approx(three, rel=1e-4)
    assert (nine - one) / (three - one) == pytest.approx(0.8 / 0.5, rel=1e-3)
    others = [{name: loss for name, loss in one.items() if name not in ("loss", "labels")}
              for one in terms.values()]  # fmt: skip
    assert others[0] == pytest.approx(others[1], rel=1e-6)


@pytest.mark.parametrize("training", [{"max_steps": 2}, {"max_steps": -1, "num_train_epochs": 1}], ids=str)
def test_the_whole_grid_asks_the_teacher_once_for_each_row_that_is_read(
    training: dict[str, int], teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    load = methods.load_teacher

    def counting(*arguments: Any) -> Any:
        model = load(*arguments)
        model.register_forward_pre_hook(
            lambda _, __, inputs: asked.append(len(inputs["input_ids"])), with_kwargs=True
        )
        return model

    monkeypatch.setattr(methods, "load_teacher", counting)
    training = training | {"per_device_train_batch_size": 2}
    settings = method_settings(("soft_labels", "patient"), **training) | {
        "student.num_hidden_layers": 2,
        "soft_labels.search": {"alpha": [0.2, 0.7], "temperature": [5, 10]},
        "patient.search": {"beta": [10, 100], "normalized": [True, False]},
    }
    result = understudy.distill(teacher, method="patient", output_dir=tmp_path / "out", settings=settings)
    rows = result.content["counts"]["train"]["rows"]
    assert rows > 2 * 2
    assert sum(asked) == (2 * 2 if training["max_steps"] == 2 else rows)
    stages = result.content["stages"]
    assert (len(stages["soft-labels"]["trials"]), len(stages["patient"]["trials"])) == (4, 4)


def test_labels_alone_do_not_ask_the_teacher(
    teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(methods, "add_teacher_answers", lambda *_, **__: pytest.fail("the teacher was asked"))
    settings = method_settings(("soft_labels",), max_steps=2) | {"student.num_hidden_layers": 1}
    result = understudy.distill(
        teacher,
        method="soft-labels",
        output_dir=tmp_path / "out",
        settings=settings | {"soft_labels.alpha": 0.0},
    )
    losses = result.content["stages"]["soft-labels"]["losses"]
    assert list(losses) == ["loss", "labels"]
    assert losses["loss"] == losses["labels"]


def test_patience_weighs_as_soft_labels_did_best(teacher: Path, tmp_path: Path) -> None:
    """The loss that is trained is (1 − α) L_CE + α L_DS + β L_PT, with the α and T that were chosen."""
    settings = method_settings(("soft_labels", "patient"), max_steps=3, logging_steps=1) | {
        "student.num_hidden_layers": 2,
        "soft_labels.search": {"alpha": [0.2], "temperature": [3.0]},
        "patient.beta": 40,
    }
    result = understudy.distill(teacher, method="patient", output_dir=tmp_path / "out", settings=settings)
    for stage, beta in (("soft-labels", 0), ("patient", 40)):
        losses = result.content["stages"][stage]["losses"]
        for when in ("first", "last"):
            parts = {name: figure[when] for name, figure in losses.items()}
            expected = 0.8 * parts["labels"] + 0.2 * parts["soft_labels"] + beta * parts.get("patient_1", 0)
            assert parts["loss"] == pytest.approx(expected, rel=1e-4)
    # At the start both stages have the same student: the same T gives the same soft labels.
    first = [
        result.content["stages"][stage]["losses"]["soft_labels"]["first"]
        for stage in ("soft-labels", "patient")
    ]
    assert first[0] == pytest.approx(first[1])


def test_a_shape_takes_the_place_of_the_recipes_sizes(teacher: Path, tmp_path: Path) -> None:
    settings = method_settings(("soft_labels",), max_steps=1) | {"student.shape": "1l-16d"}
    for name, given in (("set", {}), ("option", {"student": "1l-16d"})):
        settings = settings if name == "set" else method_settings(("soft_labels",), max_steps=1)
        understudy.distill(
            teacher, method="soft-labels", output_dir=tmp_path / name, settings=settings, **given
        )
        config = json.loads((tmp_path / name / "student" / "config.json").read_text())
        assert (config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"]) == (
            1,
            16,
            64,
        )
    # Both are cut from the teacher, as the recipe says, and so are one and the same.
    assert same_weights(tmp_path / "set", tmp_path / "option")
    with pytest.raises(RecipeError, match="--predictions goes with --method soft-labels"):
        understudy.distill(predictions="x.parquet", task="sst2", output_dir=tmp_path / "c")
    with pytest.raises(ModelError, match=r"is not a folder\. Check the path"):
        understudy.distill(
            teacher,
            method="soft-labels",
            output_dir=tmp_path / "d",
            settings=settings | {"student.source": str(tmp_path / "none")},
        )
    with pytest.raises(RecipeError, match=r"a stage has its own: soft_labels\.training"):
        understudy.distill(
            teacher, method="soft-labels", output_dir=tmp_path / "e", settings={"training.max_steps": 1}
        )


def test_two_processes_share_what_a_teacher_said(teacher: Path, tmp_path: Path) -> None:
    """Both start at once with nothing there; neither disturbs the other, and a third finds it whole."""
    settings = method_settings(("soft_labels", "patient"), max_steps=3) | {"student.num_hidden_layers": 2}
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    processes = [
        Command(command(teacher, tmp_path / name, settings, ("--method", "patient")), environment)
        for name in ("one", "other")
    ]
    for process in processes:
        assert process.wait() == 0, process.output
    assert same_weights(tmp_path / "one", tmp_path / "other")
    (folder,) = cache_folder().glob("teacher-*")
    assert len(list(folder.glob("predictions-*.arrow"))) == len(list(folder.glob("states-*.arrow"))) == 1
    assert not list(folder.glob("*.writing"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teacher_cache, "_fill", None)  # nothing is computed again
        understudy.distill(teacher, method="patient", output_dir=tmp_path / "third", settings=settings)
    assert same_weights(tmp_path / "one", tmp_path / "third")


def test_another_width_needs_a_projection(teacher: Path, tmp_path: Path) -> None:
    settings = method_settings(("soft_labels", "patient"), max_steps=20) | {
        "student": {"num_hidden_layers": 2, "hidden_size": 16},
    }
    with pytest.raises(RecipeError, match=r"patient\.projection is none, and the student's width of 16"):
        understudy.distill(teacher, method="patient", output_dir=tmp_path / "a", settings=settings)
    assert not (tmp_path / "a").exists()
    result = understudy.distill(
        teacher,
        method="patient",
        output_dir=tmp_path / "b",
        settings=settings | {"patient.projection": "shared", "patient.training.eval_strategy": "epoch"},
    )
    losses = result.content["stages"]["patient"]["losses"]
    assert losses["patient_1"]["last"] < losses["patient_1"]["first"]
    assert (
        AutoModelForSequenceClassification.from_pretrained(tmp_path / "b" / "student").config.hidden_size
        == 16
    )


def test_a_trial_that_diverges_is_left_out(teacher: Path, tmp_path: Path) -> None:
    settings = DISTIL | {
        "intermediate": None,
        "prediction.training.max_steps": 20,
        "prediction.training.learning_rate": None,
        "prediction.training.max_grad_norm": 0.0,
        "prediction.search": {"learning_rate": [1e30, 5e-3]},
    }
    result = understudy.distill(teacher, student="1l-16d", output_dir=tmp_path / "out", settings=settings)
    best, worst = result.content["stages"]["prediction"]["trials"]
    assert best["values"] == {"learning_rate": 5e-3}
    assert worst["score"] is None


def test_a_seed_decides_everything(teacher: Path, tmp_path: Path) -> None:
    weights = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        settings = DISTIL | {
            "seed": seed,
            "intermediate.training.max_steps": 3,
            "prediction.training.max_steps": 3,
        }
        torch.rand((weights and 7) or 3)  # what was drawn before has no say
        understudy.distill(teacher, student="1l-16d", output_dir=tmp_path / name, settings=settings)
        weights.append((tmp_path / name / "student" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


def test_what_is_refused(teacher: Path, encoder: Path, tmp_path: Path) -> None:
    file = str(write_classification(tmp_path))
    files = DISTIL | {"data.train": file, "data.dev": file}
    with pytest.raises(RecipeError, match="there is no task to learn"):
        understudy.distill(encoder, student="1l-16d", output_dir=tmp_path / "a")
    with pytest.raises(ModelError, match="has no head for classification"):
        understudy.distill(
            encoder, task="classification", student="1l-16d", output_dir=tmp_path / "a", settings=files
        )
    with pytest.raises(RecipeError, match="teacher must be given"):
        understudy.distill(task="classification", output_dir=tmp_path / "a", settings=files)
    with pytest.raises(RecipeError, match="is not a recipe for --method tinybert"):
        understudy.distill(teacher, recipe="finetune-mrpc", output_dir=tmp_path / "a")
    with pytest.raises(RecipeError, match=r"intermediate\.training\.learning_rat is not an argument"):
        understudy.distill(
            teacher, output_dir=tmp_path / "a", settings={"intermediate.training.learning_rat": 1}
        )
    with pytest.raises(RecipeError, match=r"intermediate\.training\.eval_strategy cannot be set"):
        understudy.distill(
            teacher, output_dir=tmp_path / "a", settings={"intermediate.training.eval_strategy": "epoch"}
        )
    with pytest.raises(RecipeError, match="training has no effect with method: tinybert"):
        understudy.distill(teacher, output_dir=tmp_path / "a", settings={"training.seed": 1})
    with pytest.raises(RecipeError, match=r"prediction\.training\.learning_rate has no effect beside"):
        understudy.distill(
            teacher,
            output_dir=tmp_path / "a",
            settings={"prediction.training.learning_rate": 1, "prediction.search.learning_rate": [1]},
        )
    with pytest.raises(RecipeError, match=r"prediction\.training: TrainingArguments refuses"):
        understudy.distill(
            teacher,
            student="1l-16d",
            output_dir=tmp_path / "a",
            settings=DISTIL | {"prediction.search": {"lr_scheduler_type": ["linear", "cosin"]}},
        )
    with pytest.raises(RecipeError, match="--method must be one of tinybert, joint, patient, soft-labels"):
        understudy.distill(teacher, method="tiny", output_dir=tmp_path / "a")
    random_start = {"student.init": "random", "student.layers": "first"}
    with pytest.raises(RecipeError, match=r"student\.layers has no effect with student\.init=random"):
        understudy.distill(teacher, output_dir=tmp_path / "a", settings=random_start)
    assert not (tmp_path / "a").exists()


def test_a_finished_stage_asks_its_teacher_nothing(
    teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = DISTIL | {"intermediate.training.max_steps": 2, "prediction.training.max_steps": 2}
    first = understudy.distill(teacher, student="1l-16d", output_dir=tmp_path / "out", settings=settings)
    (tmp_path / "out" / "result.json").unlink()
    monkeypatch.setattr(methods, "add_teacher_answers", lambda *_, **__: pytest.fail("it was asked"))
    again = understudy.distill(teacher, student="1l-16d", output_dir=tmp_path / "out", settings=settings)
    assert again.content == first.content


@pytest.mark.parametrize(
    "name", ["intermediate/student/model.safetensors", "intermediate/losses.csv", "prediction/result.json"]
)
def test_a_damaged_stage_is_made_again(
    name: str, teacher: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = DISTIL | {"intermediate.training.max_steps": 2, "prediction.training.max_steps": 2}
    output = tmp_path / "out"
    understudy.distill(teacher, student="1l-16d", output_dir=output, settings=settings)
    files = ("student/model.safetensors", "prediction/student/model.safetensors", "intermediate/losses.csv")
    made = {file: (output / file).read_bytes() for file in files}
    (output / "result.json").unlink()
    data = (output / name).read_bytes()
    (output / name).write_bytes(data[:-2] + bytes([data[-2] ^ 1, data[-1]]))
    with caplog.at_level("WARNING"):
        understudy.distill(teacher, student="1l-16d", output_dir=output, settings=settings)
    assert re.search(rf"{name} is (not what was written|damaged), so it is made again", caplog.text)
    assert made == {file: (output / file).read_bytes() for file in files}


def test_another_student_does_not_continue_a_run(teacher: Path, tmp_path: Path) -> None:
    settings = DISTIL | {"intermediate.training.max_steps": 2, "prediction.training.max_steps": 2}
    understudy.distill(teacher, student="1l-16d", output_dir=tmp_path / "out", settings=settings)
    with pytest.raises(OutputError, match="holds a finished run"):
        understudy.distill(teacher, student="1l-16d", output_dir=tmp_path / "out", settings=settings)
    (tmp_path / "out" / "result.json").unlink()
    with pytest.raises(OutputError, match="an unfinished run of another recipe"):
        understudy.distill(teacher, student="1l-32d", output_dir=tmp_path / "out", settings=settings)
    again = understudy.distill(
        teacher, student="1l-32d", output_dir=tmp_path / "out", settings=settings, overwrite=True
    )
    assert again.content["parameters"]["student"] > 0
    weights = load_file(tmp_path / "out" / "student" / "model.safetensors")
    assert weights["bert.embeddings.word_embeddings.weight"].shape[1] == 32
