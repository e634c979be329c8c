"""What a user does with `finetune` beside the happy path."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from kinds import write_classification, write_pairs, write_regression
from processes import Command, run_command
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import AutoConfig, AutoModelForSequenceClassification, TrainingArguments, pipeline

import understudy
from understudy.errors import ModelError, OutputError, RecipeError
from understudy.pipeline.preflight.checks import preflight
from understudy.recipe.load import load_recipe
from understudy.training.arguments import build_arguments

SMALL = {
    "training.num_train_epochs": 3,
    "training.per_device_train_batch_size": 2,
    "training.learning_rate": 1e-3,
    "training.logging_steps": 1,
    "data.max_length": 32,
}


def settings_for(file: Path) -> dict[str, object]:
    return SMALL | {"data.train": str(file), "data.dev": str(file)}


def noise(folder: Path) -> tuple[Path, Path]:
    """Texts whose labels are drawn at random: what is learnt of them is memory."""
    generator = random.Random(0)
    words = (
        "good",
        "bad",
        "film",
        "cat",
        "dog",
        "city",
        "river",
        "red",
        "blue",
        "fast",
        "slow",
        "anna",
        "rome",
    )
    files = folder / "noise.csv", folder / "noise-dev.csv"
    for file, count in zip(files, (60, 40), strict=True):
        rows = [(" ".join(generator.sample(words, 4)), generator.choice("xy")) for _ in range(count)]
        file.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows), "utf-8")
    return files


def test_held_out_rows_choose_the_step_and_show_what_is_memory(encoder: Path, tmp_path: Path) -> None:
    train, dev = noise(tmp_path)
    training = {"max_steps": 120, "per_device_train_batch_size": 16, "learning_rate": 3e-3}
    settings = {
        "data.train": str(train),
        "data.dev": str(dev),
        "data.max_length": 32,
        "dropout": 0.0,
        "training": {**training, "report_to": "none"},
    }
    plain = understudy.finetune(
        encoder, task="classification", output_dir=tmp_path / "plain", settings=settings
    )
    assert plain.memory is None
    chosen = understudy.finetune(
        encoder, task="classification", output_dir=tmp_path / "chosen", settings=settings | {"held_out": 0.25}
    )
    # Labels without a rule: the loss on held-out rows is lowest early.
    assert chosen.content["steps"] == 120
    assert 0 < chosen.content["best_step"] < 60
    assert chosen.content["memory"]["rows"] == {"train": 45, "held_out": 15}
    assert chosen.memory is not None
    assert chosen.memory["train"].value < 0.95
    # The plain teacher knows its rows by heart, and a run with it says so.
    recipe = load_recipe(
        "tinybert-classification",
        {"teacher": str(tmp_path / "plain"), "data.train": str(train), "data.dev": str(dev)}
        | {"data.max_length": 32, "student.shape": "1l-16d"},
    )
    warnings = {one.check: one.message for one in preflight(recipe, tmp_path / "run")[1]}
    assert re.search(r"has accuracy (1\.00|0\.9\d) on training rows", warnings["teacher_memory"])
    other = recipe.model_copy(update={"teacher": str(tmp_path / "chosen")})
    assert "teacher_memory" not in {one.check for one in preflight(other, tmp_path / "run")[1]}
    with pytest.raises(RecipeError, match=r"training\.load_best_model_at_end has no effect beside held_out"):
        understudy.finetune(
            encoder,
            task="classification",
            output_dir=tmp_path / "both",
            settings=settings | {"held_out": 0.25, "training.load_best_model_at_end": True},
        )


def test_balanced_classes_are_learnt_alike(encoder: Path, tmp_path: Path) -> None:
    """Texts that say nothing, a quarter of them rare: without weights the rare class is never predicted."""
    file = tmp_path / "rows.csv"
    rows = ["a film,often"] * 12 + ["a film,rare"] * 4
    file.write_text("text,label\n" + "\n".join(rows) + "\n")
    settings = settings_for(file) | {
        "dropout": 0.0,
        "training.per_device_train_batch_size": 16,
        "training.num_train_epochs": 60,
        "training.load_best_model_at_end": False,
        "training.eval_strategy": "no",
        "training.save_strategy": "no",
    }
    shares = {}
    for name, more in (("plain", {}), ("balanced", {"class_weights": "balanced"})):
        result = understudy.finetune(
            encoder,
            task="classification",
            output_dir=tmp_path / name,
            settings=settings | more,
        )
        classify = pipeline("text-classification", model=str(tmp_path / name), device="cpu", top_k=None)
        shares[name] = {one["label"]: one["score"] for one in classify(["a film"])[0]}["rare"]
        weights = result.content.get("class_weights")
    assert shares == pytest.approx({"plain": 0.25, "balanced": 0.5}, abs=0.02)
    assert weights == pytest.approx({"often": 16 / 24, "rare": 2.0})


def test_truncated_rows_are_counted_and_said(
    encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train, dev = tmp_path / "train.csv", tmp_path / "dev.csv"
    exact = " ".join(["film"] * 6)  # with two special tokens just what fits
    train.write_text(f"text,label\n{exact},a\n{exact} film,b\nfilm,b\nfilm cat,a\n")
    dev.write_text("text,label\nfilm,a\ncat,b\n")
    with caplog.at_level("INFO", logger="understudy"):
        result = understudy.finetune(
            encoder,
            task="classification",
            output_dir=tmp_path / "out",
            settings=SMALL
            | {"data.train": str(train), "data.dev": str(dev), "data.max_length": 8}
            | {"training.max_steps": 1},
        )
    counts = result.content["counts"]
    assert {split: count["truncated"] for split, count in counts.items()} == {"train": 1, "dev": 0}
    said = "train: 1 of 4 rows (25.0 %) are longer than data.max_length of 8 tokens and are cut."
    assert said in caplog.text
    assert "dev: " not in caplog.text


def test_what_is_left_behind(encoder: Path, tmp_path: Path) -> None:
    output = tmp_path / "teacher"
    settings = settings_for(write_classification(tmp_path)) | {"dropout": 0.0}
    result = understudy.finetune(encoder, task="classification", output_dir=output, settings=settings)
    written = json.loads((output / "result.json").read_text())
    assert written == json.loads(json.dumps(result.content))
    counts = {"rows": 8, "dropped": 0, "truncated": 0}
    assert written["counts"] == {"train": counts, "dev": counts}
    assert written["steps"] == 12
    assert written["labels"] == ["neg", "pos"]
    assert set(written["hashes"]) == {"model", "train", "dev"}
    assert json.loads((output / "tokenizer.json").read_text())["truncation"] is None
    assert written["versions"]["torch"] == torch.__version__
    # A recipe that says it again, checkpoints gone, logs there.
    again = understudy.load_recipe(output / "recipe.yaml")
    assert again.data.train == settings["data.train"]
    assert not list((output / "training").glob("checkpoint-*"))
    assert list((output / "training").rglob("events.out.tfevents.*"))
    # The labels are in the config, and dropout is what the encoder came with.
    config = AutoConfig.from_pretrained(output)
    assert config.id2label == {0: "neg", 1: "pos"}
    assert config.hidden_dropout_prob == 0.1
    classify = pipeline("text-classification", model=str(output), device="cpu")
    assert classify("a good film")[0]["label"] in ("neg", "pos")


def test_a_seed_decides_everything(encoder: Path, tmp_path: Path) -> None:
    file = write_classification(tmp_path)
    weights = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        settings = settings_for(file) | {"training.seed": seed, "training.report_to": "none"}
        torch.rand((weights and 7) or 3)  # what was drawn before has no say
        understudy.finetune(encoder, task="classification", output_dir=tmp_path / name, settings=settings)
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


def test_a_run_killed_in_the_middle_continues_to_the_same_weights(encoder: Path, tmp_path: Path) -> None:
    file = write_classification(tmp_path)
    arguments = ["finetune", str(encoder), "--task", "classification"]
    settings = settings_for(file) | {
        "training.num_train_epochs": 10,
        "training.save_strategy": "steps",
        # Not a divisor of the 4 steps of an epoch: the run continues inside one.
        "training.save_steps": 3,
        "training.report_to": "none",
    }
    arguments += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]

    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    run_command([*arguments, "--output-dir", str(undisturbed)], environment)
    arguments += ["--output-dir", str(disturbed)]
    process = Command(arguments, environment)
    process.kill_when(lambda: bool(list(disturbed.glob("training/checkpoint-*/seal.json"))))
    assert not (disturbed / "result.json").exists()
    assert "Continuing from" in run_command(arguments, environment)
    expected, got = (load_file(folder / "model.safetensors") for folder in (undisturbed, disturbed))
    assert expected.keys() == got.keys()
    assert all(torch.equal(expected[name], got[name]) for name in expected)


def test_other_data_do_not_continue_a_run(encoder: Path, tmp_path: Path) -> None:
    file = write_classification(tmp_path)
    output, settings = tmp_path / "t", settings_for(file) | {"training.report_to": "none"}
    understudy.finetune(encoder, task="classification", output_dir=output, settings=settings)
    (output / "result.json").unlink()
    file.write_text(file.read_text() + "good and great,pos\n")
    with pytest.raises(OutputError, match="on other data or another model"):
        understudy.finetune(encoder, task="classification", output_dir=output, settings=settings)


def test_scores_are_those_of_float32_after_training_in_bf16(encoder: Path, tmp_path: Path) -> None:
    settings = settings_for(write_regression(tmp_path)) | {
        "training.bf16": True,
        "training.report_to": "none",
    }
    result = understudy.finetune(encoder, task="stsb", output_dir=tmp_path / "t", settings=settings)
    code = f"import understudy, json; print(json.dumps(understudy.evaluate({str(tmp_path / 't')!r}).scores))"
    alone = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert json.loads(alone)["dev"] == pytest.approx(result.scores["dev"], abs=1e-6)


def test_a_finished_run_is_not_overwritten_unasked(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "teacher").mkdir()
    (tmp_path / "teacher" / "result.json").write_text("{}")
    with pytest.raises(OutputError, match="holds a finished run"):
        understudy.finetune(
            encoder,
            task="classification",
            output_dir=tmp_path / "teacher",
            settings=settings_for(write_classification(tmp_path)),
        )


def test_the_best_epoch_is_chosen_by_the_headline_metric(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[TrainingArguments] = []

    def build_and_keep(*arguments: Any) -> TrainingArguments:
        seen.append(build_arguments(*arguments))
        return seen[-1]

    monkeypatch.setattr("understudy.stages.finetune.build_arguments", build_and_keep)
    settings = settings_for(write_pairs(tmp_path)) | {"training.load_best_model_at_end": True}
    understudy.finetune(encoder, task="mrpc", output_dir=tmp_path / "t", settings=settings)
    assert (seen[0].metric_for_best_model, seen[0].greater_is_better) == ("f1", True)


def test_a_length_beyond_the_model_is_refused(encoder: Path, tmp_path: Path) -> None:
    settings = settings_for(write_classification(tmp_path)) | {"data.max_length": 256}
    with pytest.raises(ModelError, match=r"data\.max_length is 256, and the model reads at most 128"):
        understudy.finetune(encoder, task="classification", output_dir=tmp_path / "t", settings=settings)
    assert not (tmp_path / "t").exists()


def test_no_model_and_no_task_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="model must be given"):
        understudy.finetune(task="mrpc", output_dir=tmp_path / "t")
    with pytest.raises(RecipeError, match="there is no task to learn"):
        understudy.finetune("x", output_dir=tmp_path / "t")


def test_a_task_and_a_recipe_for_another_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="--task mrpc and the recipe finetune-sst2, which is for sst2"):
        understudy.finetune("x", task="mrpc", recipe="finetune-sst2", output_dir=tmp_path / "t")


@pytest.mark.parametrize("model", ["./nowhere", "nobody/nothing"])
def test_a_model_that_is_not_there(model: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=model):
        understudy.finetune(
            model,
            task="classification",
            output_dir=tmp_path / "t",
            settings=settings_for(write_pairs(tmp_path)),
        )


def test_going_on_from_a_fine_tuned_model_compares_the_labels(encoder: Path, tmp_path: Path) -> None:
    config = AutoConfig.from_pretrained(encoder)
    config.id2label = {0: "sport", 1: "politics", 2: "weather"}
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path / "news")
    understudy.models.pretrained.load_tokenizer(str(encoder)).save_pretrained(tmp_path / "news")
    with pytest.raises(ModelError, match=r"(?s)must agree in names and order.*sport +neg"):
        understudy.finetune(
            tmp_path / "news",
            task="classification",
            output_dir=tmp_path / "t",
            settings=settings_for(write_classification(tmp_path)) | {"data.labels": ["neg", "pos"]},
        )


def test_two_processes_train_together_and_speak_once(encoder: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    words = ["good", "bad", "great", "awful", "film", "cat", "dog"]
    rows = [(" ".join(words[: 1 + index % 7]), index % 3) for index in range(61)]
    file.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    arguments = [
        "finetune",
        str(encoder),
        "--task",
        "classification",
        "--output-dir",
        str(tmp_path / "t"),
        "--json",
    ]
    settings = settings_for(file) | {
        "training.per_device_eval_batch_size": 4,
        "training.report_to": "tensorboard",
    }
    arguments += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    finished = subprocess.run(
        [*launcher, "-m", "understudy", *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    result = json.loads(finished.stdout)  # one object, from one process
    assert result["steps"] == 3 * 16  # 61 rows, 2 × 2 a step
    # What the two scored together while training is what one scores of the saved model.
    (events,) = (tmp_path / "t").rglob("events.out.*")  # one process writes them
    logs = EventAccumulator(str(events)).Reload()
    shown = logs.Scalars("eval/accuracy")[-1].value
    assert shown == pytest.approx(result["scores"]["dev"]["accuracy"]["value"], abs=1e-3)
