"""Score a model on a task, alone or against another on the same rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from understudy.data.labels import label_names
from understudy.data.load import TaskData, load_data
from understudy.data.sources import dev_splits
from understudy.errors import OutputError, RecipeError
from understudy.evaluation.compare import compare
from understudy.evaluation.score import Score, prepare_split, score_model
from understudy.files import write_atomically
from understudy.models.pretrained import (
    check_max_length,
    load_config,
    load_model,
    load_tokenizer,
    model_labels,
)
from understudy.models.student import student_inside
from understudy.recipe.load import apply_settings, load_recipe
from understudy.recipe.recipe import Recipe
from understudy.stages.result import (
    RESULT,
    StageResult,
    announce,
    data_content,
    hash_model,
    saved_recipe,
    score_content,
    versions,
    why_no_recipe,
    write_result,
)

PREDICTIONS = "predictions.jsonl"


def evaluate(
    model: str | Path,
    *,
    task: str | None = None,
    data: str | Path | None = None,
    split: str | None = None,
    against: str | Path | None = None,
    recipe: str | Path | None = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    batch_size: int = 64,
    output_dir: str | Path | None = None,
) -> StageResult:
    """Score a fine-tuned model with the task's official metrics and 95 % intervals.

    Args:
        model: a folder or a hub name. A folder that `finetune` or `distill` wrote knows its task and data.
        split: the task's development sets where not given.
        against: another model, scored on the same rows; differences come with paired intervals.
        output_dir: gets result.json, and predictions.jsonl with what was said of every row, where given.

    Example:
        >>> understudy.evaluate("student", against="teacher").content["difference"]  # doctest: +SKIP
        {'dev': {'f1': {'value': -0.012, 'low': -0.031, 'high': 0.006}}}
    """
    model = student_inside(model)
    against = student_inside(against) if against is not None else None
    folder = Path(output_dir) if output_dir is not None else None
    if folder is not None and (folder / RESULT).exists():
        raise OutputError(f"{folder} holds a result already. Use another --output-dir.")
    run = evaluation_recipe(model, task=task, data=data, recipe=recipe, settings=settings)
    splits = (split,) if split else dev_splits(run.task_row, run.data)
    _refuse_unfinished(model)
    loaded = load_data(
        run.task_row, run.data, splits, labels=model_labels(load_config(str(model)), run.task_row)
    )
    announce(loaded)
    # Everything that can be wrong with either model shows before the first one is run.
    names = [str(model)] + ([str(against)] if against is not None else [])
    models = [load_to_score(name, run, loaded) for name in names]
    scores, *others = [_score(*pair, run, loaded, batch_size) for pair in models]
    content: dict[str, Any] = {
        "stage": "evaluate",
        "task": run.task,
        "model": str(model),
        **score_content(scores),
        **data_content(loaded),
        "hashes": {"model": hash_model(str(model)), **loaded.hashes},
        "versions": versions(),
    }
    if others:
        other = others[0]
        content["against"] = {"model": names[1], **score_content(other)}
        content["hashes"]["against"] = hash_model(names[1])
        content |= compare(run.task_row, scores, other)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        label_field = run.task_row.kind.label_field
        write_predictions(folder / PREDICTIONS, loaded, label_field, scores, others[0] if others else None)
        write_result(folder, content)
    return StageResult(folder, content)


def write_predictions(
    path: Path,
    data: TaskData,
    label_field: str,
    scores: Mapping[str, Score],
    others: Mapping[str, Score] | None,
) -> None:
    """Every row with its fields, its label, and what one model or both said of it."""
    lines = []
    for split, rows in data.splits.items():
        said = {"prediction": scores[split]} | ({"against": others[split]} if others else {})
        for place, row in enumerate(rows):
            row[label_field] = label_names(row[label_field], data.labels)
            answers = {
                who: label_names(score.predictions.values[place], data.labels) for who, score in said.items()
            }
            lines.append(json.dumps({"split": split, **row, **answers}, ensure_ascii=False) + "\n")
    write_atomically(path, "".join(lines))


def read_predictions(path: Path, split: str) -> list[dict[str, Any]]:
    """The rows of a split that `write_predictions` has written."""
    # Not splitlines: a text may have other ends of lines in it.
    rows = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    return [row for row in rows if row["split"] == split]


def evaluation_recipe(
    model: str | Path,
    *,
    task: str | None,
    data: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """The recipe given, else the one saved beside the model, else one of task and data alone."""
    saved = saved_recipe(model)
    if recipe is None and task is None and saved is not None:
        recipe = saved
    if recipe is not None:
        values = load_recipe(recipe).model_dump(exclude_defaults=True)
    elif task is not None:
        values = {"task": task}
    else:
        raise RecipeError(f"--task must be given, e.g. --task mrpc: {why_no_recipe(model)}.")
    if data is not None:
        values["data"] = {
            **{
                key: value
                for key, value in values.get("data", {}).items()
                if key not in ("source", "train", "dev", "test")
            },
            "source": str(data),
        }
    if task is not None:
        values["task"] = task
    return Recipe.from_mapping(apply_settings(values, settings))


def _refuse_unfinished(model: str | Path) -> None:
    saved = saved_recipe(model)
    if saved is not None and not saved.with_name(RESULT).is_file():
        raise OutputError(f"{model} holds an unfinished run. Run its command again: it continues.")


def load_to_score(model: str, run: Recipe, data: TaskData) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """A finished model that fits the data, and its tokenizer."""
    _refuse_unfinished(model)
    config = load_config(model)
    tokenizer = load_tokenizer(model)
    check_max_length(config, tokenizer, run.max_length)
    return load_model(model, run.task_row, data.labels, fine_tuned=True), tokenizer


def _score(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    run: Recipe,
    data: TaskData,
    batch_size: int,
) -> dict[str, Score]:
    return {
        split: score_model(
            model,
            tokenizer,
            prepare_split(run.task_row, rows, tokenizer, max_length=run.max_length, stride=run.data.stride),
            batch_size=batch_size,
        )
        for split, rows in data.splits.items()
    }
