"""The summary of a distillation: student next to teacher, and the results of each stage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from understudy.artifacts.onnx import input_names
from understudy.data.load import TaskData
from understudy.distillation.agreement import labels_from
from understudy.distillation.folds import read_folds
from understudy.distillation.rows import Prepared, describe_rows
from understudy.distillation.vocabulary import Vocabulary
from understudy.evaluation.compare import compare
from understudy.evaluation.score import EvaluationSplit, Score, score_content, score_model
from understudy.files import hash_file
from understudy.models.pretrained import load_model, load_tokenizer
from understudy.models.settings import STUDENT
from understudy.recipe.recipe import Recipe
from understudy.workspace.folders import STAGES
from understudy.workspace.hashes import hash_model, hash_start, versions
from understudy.workspace.inputs import describe_input
from understudy.workspace.result import read_part
from understudy.workspace.splits import split_of


def hash_inputs(recipe: Recipe, data: TaskData) -> dict[str, str]:
    """Hash all inputs of a distillation: rows, teacher or predictions, and the student's start."""
    hashes = dict(data.hashes)
    predictions = recipe.soft_labels.predictions if recipe.soft_labels is not None else None
    if recipe.teacher is not None:
        hashes["teacher"] = hash_model(recipe.teacher)
        if recipe.unseen:
            hashes |= {
                f"fold {fold}": hash_model(model)
                for fold, model in enumerate(
                    read_folds(recipe.teacher, data, recipe.task_definition.rows).models
                )
            }
    elif predictions is not None and Path(predictions).is_file():  # anything else is refused shortly after
        hashes["predictions"] = hash_file(Path(predictions))
    return hashes | hash_start(recipe)


def summarize_distillation(
    recipe: Recipe,
    prepared: Prepared,
    output_dir: Path,
    hashes: Mapping[str, str],
    vocabulary: Vocabulary | None,
) -> tuple[dict[str, Any], dict[str, dict[str, Score]]]:
    """Score the student next to its teacher, if any; return the result's content and the scores."""
    task = prepared.task
    names = {"student": str(output_dir / STUDENT)}
    if recipe.teacher is not None:
        names["teacher"] = recipe.teacher
    models = {
        who: load_model(name, task, prepared.data.labels, fine_tuned=True) for who, name in names.items()
    }
    read = dict.fromkeys(models, (prepared.tokenizer, prepared.dev))
    if vocabulary is not None:
        read["teacher"] = _as_the_teacher_reads(recipe, prepared)
    scores = {
        who: {split: score_model(model, read[who][0], rows) for split, rows in read[who][1].items()}
        for who, model in models.items()
    }
    inputs = input_names(models["student"], prepared.tokenizer.model_input_names)
    beside: dict[str, Any] = {}
    if recipe.teacher is not None:
        beside = {
            "against": {"model": recipe.teacher, **score_content(scores["teacher"])},
            **compare(task, scores["student"], scores["teacher"]),
        }
    constant = [
        who
        for who, splits in scores.items()
        if task.rows.has_named_labels and _is_constant(next(iter(splits.values())))
    ]
    found = {name: read_part(output_dir / name) for name in STAGES}
    stages = {name: content for name, content in found.items() if content is not None}
    content = {
        "stage": "distill",
        "method": recipe.method,
        "task": task.name,
        "model": str(output_dir / STUDENT),
        **score_content(scores["student"]),
        **beside,
        **describe_rows(prepared),
        "input": describe_input(recipe, prepared.tokenizer, prepared.data, inputs),
        **({"vocabulary": vocabulary.content} if vocabulary is not None else {}),
        "parameters": {who: model.num_parameters() for who, model in models.items()},
        "stages": stages,
        **({"labels_from": labels_from(recipe)} if labels_from(recipe) else {}),
        **({"constant": constant} if constant else {}),
        "seed": recipe.seed,
        "hashes": dict(hashes),
        "versions": versions(),
    }
    return content, scores


def _is_constant(score: Score) -> bool:
    """Return whether a model gives the same answer to every row."""
    values = score.predictions.values
    return len(values) > 1 and len({str(value) for value in values}) == 1


def _as_the_teacher_reads(
    recipe: Recipe, prepared: Prepared
) -> tuple[PreTrainedTokenizerFast, dict[str, EvaluationSplit]]:
    """Return the teacher's own tokenizer, and the development sets encoded with it."""
    tokenizer = load_tokenizer(str(recipe.teacher))
    splits = {name: split_of(recipe, one.rows, tokenizer) for name, one in prepared.dev.items()}
    return tokenizer, splits
