"""Teachers of parts of the rows: each row is predicted by one that has not learnt from it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from kinds import EXAMPLES
from processes import Command, run_command
from safetensors.torch import load_file
from teaching import TRAIN, method_settings
from transformers import TrainerCallback

import understudy
from understudy.data.load import load_data
from understudy.distillation.folds import fold_numbers, read_folds
from understudy.distillation.teachers import group_numbers
from understudy.errors import RecipeError
from understudy.kinds.tasks import get_task
from understudy.recipe.load import load_recipe


def fold_settings(file: Path, steps: int) -> dict[str, Any]:
    return TRAIN | {
        "data.train": str(file),
        "data.dev": str(file),
        "training.max_steps": steps,
        "training.learning_rate": 5e-3,
        "folds": 2,
    }


@pytest.fixture(scope="module")
def teacher(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folds")
    file = EXAMPLES["classification"].write(folder)
    understudy.finetune(
        encoder, task="classification", output_dir=folder / "teacher", settings=fold_settings(file, 30)
    )
    return folder / "teacher"


def distill(teacher: Path, output: Path, method: str = "soft-labels", **more: Any) -> Any:
    stages = {"soft-labels": ("soft_labels",), "tinybert": ("prediction",)}[method]
    settings = method_settings(stages, max_steps=1) | {"unseen": True, "intermediate": None} | more
    return understudy.distill(teacher, method=method, student="1l-16d", output_dir=output, settings=settings)


def test_each_fold_is_scored_on_rows_it_has_not_learnt_from(teacher: Path) -> None:
    content = json.loads((teacher / "result.json").read_text())
    assert [fold["rows"] for fold in content["folds"]] == [4, 4]
    weights = [load_file(teacher / "folds" / str(fold) / "model.safetensors") for fold in (0, 1)]
    assert any(not np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not list(teacher.rglob("checkpoint-*"))


@pytest.mark.parametrize("method", ["soft-labels", "tinybert"])
def test_rows_get_the_predictions_of_the_other_fold(method: str, teacher: Path, tmp_path: Path) -> None:
    """Compared with what each model says by itself."""
    seen: list[dict[str, Any]] = []

    class Watch(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            seen.extend(kwargs["train_dataloader"].dataset)

    recipe = load_recipe(teacher / "recipe.yaml")
    data = load_data(recipe.task_definition, recipe.data, ["train"])
    folds = read_folds(str(teacher), data, get_task("classification").rows)
    stages = {"soft-labels": ("soft_labels",), "tinybert": ("prediction",)}[method]
    settings = method_settings(stages, max_steps=1) | {"unseen": True, "intermediate": None}
    understudy.distill(
        teacher,
        method=method,
        student="1l-16d",
        output_dir=tmp_path / "out",
        settings=settings,
        callbacks=[Watch()],
    )
    assert sorted(row["row"] for row in seen) == list(range(8))
    import torch
    from transformers import AutoModelForSequenceClassification

    models = [AutoModelForSequenceClassification.from_pretrained(model).eval() for model in folds.models]
    for row in seen:
        with torch.inference_mode():
            logits = [model(input_ids=torch.tensor([row["input_ids"]])).logits[0] for model in models]
        own = folds.of_row[row["row"]]
        told = torch.tensor(row["teacher_logits"])
        assert torch.allclose(told, logits[own], atol=1e-4)
        assert not torch.allclose(told, logits[1 - own], atol=1e-4)


def test_rows_without_labels_are_the_teachers(teacher: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("a slow film\na fast film\n")
    done = distill(teacher, tmp_path / "out", **{"data.unlabelled": [str(texts)]})
    assert done.content["counts"]["unlabelled"]["rows"] == 2
    assert {"fold 0", "fold 1", "teacher"} <= set(done.content["hashes"])


def test_rows_of_a_group_are_in_one_fold() -> None:
    rows = Dataset.from_dict({"text": list("aabbccaa"), "text_pair": list("12345678"), "label": [0.0] * 8})
    assert group_numbers(rows, get_task("ranking").rows).tolist() == [0, 0, 1, 1, 2, 2, 0, 0]
    assert group_numbers(rows, get_task("classification").rows).tolist() == list(range(8))


def test_folds_are_of_equal_size() -> None:
    assert np.bincount(fold_numbers(11, 4, seed=3)).tolist() == [3, 3, 3, 2]


def test_killed_between_folds_it_ends_in_the_same_weights(encoder: Path, tmp_path: Path) -> None:
    file = EXAMPLES["classification"].write(tmp_path)
    settings = fold_settings(file, 12) | {"training.save_strategy": "steps", "training.save_steps": 4}
    command = ["finetune", str(encoder), "--task", "classification"]
    command += [f"--set={key}={json.dumps(value)}" for key, value in settings.items()] + ["--output-dir"]
    run_command([*command, str(tmp_path / "whole")])
    process = Command([*command, str(tmp_path / "killed")])
    process.kill_when(
        (tmp_path / "killed" / "folds" / "1" / "training" / "checkpoint-4" / "seal.json").exists
    )
    run_command([*command, str(tmp_path / "killed")])
    for place in ("", "folds/0", "folds/1"):
        whole, killed = (
            load_file(tmp_path / name / place / "model.safetensors") for name in ("whole", "killed")
        )
        assert all(np.array_equal(whole[name], killed[name]) for name in whole)


def test_what_is_refused(teacher: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(teacher, plain)
    content = json.loads((plain / "result.json").read_text())
    del content["folds"]
    (plain / "result.json").write_text(json.dumps(content))
    with pytest.raises(RecipeError, match=r"unseen needs a teacher with folds.*--set folds=5"):
        distill(plain, tmp_path / "a")
    other = tmp_path / "other.csv"
    other.write_text("text,label\ngood,pos\nbad,neg\n")
    with pytest.raises(RecipeError, match="these are others"):
        distill(teacher, tmp_path / "a", **{"data.train": str(other), "data.dev": str(other)})
    with pytest.raises(RecipeError, match="unseen has no effect with method: joint"):
        understudy.distill(
            teacher, method="joint", student="1l-16d", output_dir=tmp_path / "a", settings={"unseen": True}
        )
    assert not (tmp_path / "a").exists()
