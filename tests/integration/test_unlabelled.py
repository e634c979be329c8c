"""Rows without labels: every method and kind learns from them, in one order that resumes exactly."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset, concatenate_datasets
from kinds import EXAMPLES
from processes import Command, run_command
from safetensors.torch import load_file
from teaching import method_settings, train_teacher
from transformers import TrainerCallback

import understudy
from understudy.data.load import load_data
from understudy.data.settings import DataSettings
from understudy.errors import DataError, RecipeError
from understudy.kinds.tasks import get_task

STAGES = {
    "tinybert": ("intermediate", "prediction"),
    "joint": ("joint",),
    "soft-labels": ("soft_labels",),
    "patient": ("soft_labels", "patient"),
}


@pytest.fixture(scope="module")
def teacher(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_teacher(encoder, "classification", tmp_path_factory.mktemp("taught"))


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    nouns, words = ("cat", "dog", "city", "river", "movie"), ("good", "bad", "great", "awful", "slow", "fast")
    file = tmp_path / "texts.txt"
    file.write_text("".join(f"the {noun} was {word}\n\n" for noun in nouns for word in words), "utf-8")
    return file


def settings(method: str, steps: int, **more: Any) -> dict[str, Any]:
    block = method_settings(STAGES[method], max_steps=steps)
    if method == "tinybert":
        block.pop("intermediate.search")
        for key in ("load_best_model_at_end", "eval_strategy"):
            block[f"intermediate.training.{key}"] = None
    return block | more


@pytest.mark.parametrize("method", STAGES)
def test_every_method_learns_from_them(method: str, teacher: Path, texts: Path, tmp_path: Path) -> None:
    more = {"student.shape": "2l-32d", "student.init": None, "student.layers": None}
    if method in ("tinybert", "joint"):
        more["student.shape"] = "1l-16d"
    if method == "patient":
        more["patient.projection"] = "shared"
    done = understudy.distill(
        teacher,
        method=method,
        unlabelled=[texts],
        output_dir=tmp_path / method,
        settings=settings(method, 30, **more, **{"data.labelled_share": 0.5}),
    )
    assert {split: count["rows"] for split, count in done.content["counts"].items()} == {
        "train": 8,
        "dev": 8,
        "unlabelled": 30,
    }
    assert done.hashes["unlabelled"]
    losses = done.stages[list(done.stages)[-1]].content["losses"]
    assert losses["loss"]["last"] < losses["loss"]["first"]


def shouted(kind: str, file: Path) -> Dataset:
    """The inputs of the example's rows in capitals: other rows, which a teacher reads alike."""
    task = get_task(EXAMPLES[kind].task)
    rows = load_data(task, DataSettings(train=str(file)), ["train"]).splits["train"]
    inputs = [name for name in task.kind.inputs if name in rows.column_names]

    def shout(value: Any) -> Any:
        return [shout(one) for one in value] if isinstance(value, list) else value.upper()

    return Dataset.from_list([{name: shout(row[name]) for name in inputs} for row in rows])


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_kind_has_them(kind: str, encoder: Path, tmp_path: Path) -> None:
    """Rows without labels, and no labelled row to learn from at all."""
    example = EXAMPLES[kind]
    teacher = train_teacher(encoder, kind, tmp_path)
    file = next(tmp_path.glob("rows.*"))
    done = understudy.distill(
        teacher,
        method="joint",
        student="1l-16d",
        task=example.task,
        data={"dev": str(file)},
        unlabelled=[shouted(kind, file)],
        output_dir=tmp_path / "out",
        settings=settings("joint", 2 * example.steps),
    )
    assert "train" not in done.content["counts"]
    losses = done.stages["joint"].content["losses"]
    assert losses["predictions"]["last"] < losses["predictions"]["first"]
    # No label was read: the loss against labels is 0 throughout.
    assert losses["labels"] == {"first": 0.0, "last": 0.0}


@pytest.mark.parametrize("kind", ["classification", "regression", "multiple-choice", "multi-label"])
def test_without_any_label_the_score_is_agreement(kind: str, encoder: Path, tmp_path: Path) -> None:
    """No training label and no development set: the teacher is the only source."""
    example = EXAMPLES[kind]
    teacher = train_teacher(encoder, kind, tmp_path)
    (teacher / "recipe.yaml").unlink()  # as a model of the hub: it knows no data
    rows = shouted(kind, next(tmp_path.glob("rows.*")))
    many = concatenate_datasets([rows] * 4).add_column("number", range(4 * len(rows)))
    field = get_task(example.task).kind.inputs[0]
    distinct = many.map(lambda row: {field: f"{row[field]} {row['number']}"}).remove_columns("number")
    done = understudy.distill(
        teacher,
        method="joint",
        student="1l-16d",
        task=example.task,
        unlabelled=[distinct],
        output_dir=tmp_path / "out",
        settings=settings("joint", 4),
    )
    counts = done.content["counts"]
    assert counts["dev"]["rows"] == max(1, len(distinct) // 10)
    # What the student is scored on is not learnt from.
    assert counts["unlabelled"]["rows"] == len(distinct) - counts["dev"]["rows"]
    headline = get_task(example.task).metrics[0]
    assert done.content["against"]["scores"]["dev"][headline]["value"] == pytest.approx(1.0, nan_ok=True)
    again = understudy.evaluate(tmp_path / "out")
    assert again.content["scores"]["dev"] == done.content["scores"]["dev"]


def test_tags_have_no_agreement(encoder: Path, tmp_path: Path) -> None:
    teacher = train_teacher(encoder, "token-classification", tmp_path)
    (teacher / "recipe.yaml").unlink()
    with pytest.raises(RecipeError, match=r"data\.dev must be given: agreement .* token-classification"):
        understudy.distill(
            teacher,
            task="token-classification",
            unlabelled=[shouted("token-classification", next(tmp_path.glob("rows.*")))],
            output_dir=tmp_path / "out",
        )


def test_development_rows_are_not_learnt_from(teacher: Path, texts: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.txt"
    file.write_text(texts.read_text() + "good film\nbad film\n", "utf-8")
    done = understudy.distill(
        teacher,
        method="joint",
        student="1l-16d",
        unlabelled=[file],
        output_dir=tmp_path / "out",
        settings=settings("joint", 2),
    )
    assert done.content["counts"]["unlabelled"]["rows"] == 30


def test_labels_of_other_rows_count_as_before(teacher: Path, texts: Path, tmp_path: Path) -> None:
    """Half of a batch without labels halves the mean of their loss."""
    from understudy.distillation.rows import prepare
    from understudy.recipe.load import load_recipe
    from understudy.training.arguments import build_arguments

    recipe = load_recipe(
        teacher / "recipe.yaml",
        {
            "method": "joint",
            "joint.training": {},
            "data.unlabelled": [str(texts)],
            "training": None,
            "model": None,
        },
    )
    prepared = prepare(recipe, str(teacher), build_arguments({}, tmp_path))
    assert prepared.train["labelled"][:] == [1] * 8 + [0] * 30
    assert prepared.places is None
    mixed = prepare(
        recipe.model_copy(update={"data": recipe.data.model_copy(update={"labelled_share": 0.25})}),
        str(teacher),
        build_arguments({}, tmp_path),
    )
    shares = np.asarray(mixed.epoch["labelled"][:])
    assert (shares.sum(), len(shares)) == (10, 40)
    assert sorted(mixed.epoch["row"][:][10:]) == list(range(30))


@pytest.mark.parametrize("method", ["tinybert", "joint"])
def test_layers_learn_from_them_alone(method: str, teacher: Path, texts: Path, tmp_path: Path) -> None:
    """Rows that the teacher was trained on teach predictions, not layers."""
    block = {"tinybert": "intermediate", "joint": "joint"}[method]
    steps = settings(method, 5, **{f"{block}.rows": "unlabelled"})
    seen: list[list[int]] = []

    class Watch(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            seen.append(kwargs["train_dataloader"].dataset["labelled"][:])

    understudy.distill(
        teacher,
        method=method,
        student="1l-16d",
        unlabelled=[texts],
        output_dir=tmp_path / method,
        settings=steps,
        callbacks=[Watch()],
    )
    mixed = [1] * 8 + [0] * 30
    assert seen == {"tinybert": [[0] * 30, mixed], "joint": [mixed]}[method]


def test_layers_of_rows_without_labels_need_such_rows(teacher: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"joint\.rows=unlabelled has no effect without data\.unlabelled"):
        understudy.distill(
            teacher,
            method="joint",
            student="1l-16d",
            output_dir=tmp_path / "out",
            settings=settings("joint", 2, **{"joint.rows": "unlabelled"}),
        )


def test_killed_it_ends_in_the_same_weights(teacher: Path, texts: Path, tmp_path: Path) -> None:
    """The order of mixed rows, the weight of the layers and the mean of the weights survive a restart."""
    command = ["distill", str(teacher), "--unlabelled", str(texts)]
    command += ["--student", "1l-16d", "--method", "joint", "--set", "data.labelled_share=0.4"]
    block = settings("joint", 30, **{f"joint.training.{key}": value for key, value in
                                    {"save_strategy": "steps", "save_steps": 5}.items()})  # fmt: skip
    block["joint.average"] = 0.5
    command += [f"--set={key}={json.dumps(value)}" for key, value in block.items()] + ["--output-dir"]
    run_command([*command, str(tmp_path / "whole")])
    training = tmp_path / "killed" / "joint" / "trials" / "0" / "training"
    process = Command([*command, str(tmp_path / "killed")])
    process.kill_when((training / "checkpoint-20" / "seal.json").exists)
    assert "Continuing from" in run_command([*command, str(tmp_path / "killed")])
    whole, killed = (
        load_file(tmp_path / name / "student" / "model.safetensors") for name in ("whole", "killed")
    )
    assert all(torch.equal(whole[name], killed[name]) for name in whole)


def test_what_is_refused(teacher: Path, texts: Path, tmp_path: Path) -> None:
    def distill(*unlabelled: Path | str, **values: Any) -> None:
        understudy.distill(
            teacher,
            unlabelled=list(unlabelled),
            output_dir=tmp_path / "out",
            settings=settings("tinybert", 2, **{"student.shape": "1l-16d"}) | values,
        )

    with pytest.raises(DataError, match="has no files that can be read"):
        distill(tmp_path / "nothing*.txt")
    with pytest.raises(RecipeError, match="labelled_share has no effect without"):
        distill(**{"data.labelled_share": 0.5})
    with (tmp_path / "other.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("number", "colour"), (1, "red"), (2, "blue"), (3, "green")])
    with pytest.raises(DataError, match="cannot tell which column is text"):
        distill(tmp_path / "other.csv")
    with pytest.raises(RecipeError, match="fine-tuning needs labels"):
        understudy.finetune(
            teacher,
            task="classification",
            output_dir=tmp_path / "tuned",
            settings={"data.train": str(texts), "data.dev": str(texts), "data.unlabelled": [str(texts)]},
        )


def test_rows_follow_their_columns_and_formats(tmp_path: Path) -> None:
    """What is read as the text decides the rows, also of a file that was read before."""
    (tmp_path / "rows.csv").write_text("body,title\nbody one,title one\nbody two,title two\n", "utf-8")
    (tmp_path / "dev.csv").write_text("body,title,label\na,b,x\nc,d,y\n", "utf-8")
    (tmp_path / "plain.csv").write_text("first text,1\nsecond text,2\n", "utf-8")
    (tmp_path / "plain-dev.csv").write_text("a,x\nb,y\n", "utf-8")
    task = get_task("classification")

    def texts(dev: str, unlabelled: str, columns: dict[str, Any]) -> list[str]:
        given = {"dev": str(tmp_path / dev), "unlabelled": [unlabelled], "columns": columns}
        loaded = load_data(task, DataSettings.model_validate(given), ["train", "dev"])
        return loaded.splits["unlabelled"]["text"][:]

    file = str(tmp_path / "rows.csv")
    assert texts("dev.csv", file, {"text": "body", "label": "label"}) == ["body one", "body two"]
    assert texts("dev.csv", file, {"text": "title", "label": "label"}) == ["title one", "title two"]
    numbered = {"text": 0, "label": 1}
    assert texts("plain-dev.csv", str(tmp_path / "plain.csv"), numbered) == ["first text", "second text"]
    # A folder with the signs of a pattern, and a dataset that was saved with a format.
    odd = tmp_path / "d[1]"
    Dataset.from_dict({"text": ["a b", "c d"], "label": [0, 1]}).with_format("numpy").save_to_disk(
        odd / "saved"
    )
    (odd / "saved" / "note.txt").write_text("a note\n", "utf-8")
    assert texts("dev.csv", str(odd / "saved"), {"text": "body", "label": "label"}) == ["a b", "c d"]


def test_only_labelled_rows_are_scored(teacher: Path, texts: Path, tmp_path: Path) -> None:
    done = understudy.distill(
        teacher,
        method="joint",
        student="1l-16d",
        unlabelled=[texts],
        output_dir=tmp_path / "out",
        settings=settings("joint", 2),
    )
    assert set(understudy.evaluate(done.output_dir, split="train").scores) == {"train"}


def test_agreement_keeps_the_order_of_given_labels(teacher: Path, texts: Path, tmp_path: Path) -> None:
    """A teacher whose labels have no names, as many on the hub; the user names them."""
    nameless = tmp_path / "nameless"
    shutil.copytree(teacher, nameless)
    (nameless / "recipe.yaml").unlink()
    config = json.loads((nameless / "config.json").read_text())
    config["id2label"] = {"0": "LABEL_0", "1": "LABEL_1"}
    config["label2id"] = {"LABEL_0": 0, "LABEL_1": 1}
    (nameless / "config.json").write_text(json.dumps(config))
    block = settings("joint", 2) | {"data.labels": ["neg", "pos"]}

    def distill() -> Any:
        return understudy.distill(
            nameless,
            task="classification",
            method="joint",
            student="1l-16d",
            unlabelled=[texts],
            settings=block,
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        done = distill()
        assert list(done.content["labels"]) == ["neg", "pos"]
        assert done.content["against"]["scores"]["dev"]["accuracy"]["value"] == 1.0
        assert done.content["labels_from"] == "teacher"
        # Repeated, as a notebook's cell: it finds itself finished.
        written = (tmp_path / done.output_dir / "result.json").stat().st_mtime_ns
        again = distill()
        assert again.output_dir == done.output_dir
        assert (tmp_path / done.output_dir / "result.json").stat().st_mtime_ns == written


def test_held_out_rows_are_not_training_rows(teacher: Path, tmp_path: Path) -> None:
    """Of 20 unlabelled rows all but two are labelled rows too."""
    rows = [f"the film was {word} {number}" for number in range(10) for word in ("good", "bad")]
    train, texts = tmp_path / "train.csv", tmp_path / "texts.txt"
    train.write_text(
        "text,label\n" + "".join(f"{row},{'pos' if 'good' in row else 'neg'}\n" for row in rows[:18])
    )
    texts.write_text("".join(f"{row}\n" for row in rows))
    plain = tmp_path / "plain"
    shutil.copytree(teacher, plain)
    (plain / "recipe.yaml").unlink()
    done = understudy.distill(
        plain,
        task="classification",
        method="joint",
        student="1l-16d",
        data={"train": str(train)},
        unlabelled=[texts],
        output_dir=tmp_path / "out",
        settings=settings("joint", 2),
    )
    assert done.content["counts"]["dev"]["rows"] == 2
    assert done.content["counts"]["unlabelled"]["rows"] == 18
    texts.write_text("one\ntwo\nthree\n")
    with pytest.raises(RecipeError, match=r"data\.dev must be given: to hold some .* 20 .* there are 3"):
        understudy.distill(plain, task="classification", unlabelled=[texts], output_dir=tmp_path / "few")


def test_a_plan_knows_rows_without_labels(teacher: Path, texts: Path, tmp_path: Path) -> None:
    from understudy.planning.plan import plan_from_recipe
    from understudy.recipe.load import load_recipe

    recipe = load_recipe(
        "tinybert-classification",
        settings("tinybert", 5)
        | {
            "teacher": str(teacher),
            "student.shape": "1l-16d",
            "data.train": load_recipe(teacher / "recipe.yaml").data.train,
            "data.dev": load_recipe(teacher / "recipe.yaml").data.dev,
            "data.unlabelled": [str(texts)],
            "intermediate.rows": "unlabelled",
            "intermediate.training.max_steps": None,
            "intermediate.training.num_train_epochs": 1,
        },
    )
    parts = {part["name"]: part for part in plan_from_recipe(recipe, seconds=0.1)["parts"]}
    assert parts["intermediate"]["steps"] == 4  # 30 rows in batches of 8
