"""Scoring without labels: agreement of the student with its teacher on held-out rows."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from understudy.data.labels import label_names
from understudy.data.load import cache_folder, load_unlabelled
from understudy.errors import RecipeError
from understudy.evaluation.score import predict_logits, prepare_split
from understudy.files import write_atomically
from understudy.models.pretrained import load_config, load_model, load_tokenizer, model_labels
from understudy.recipe.recipe import Recipe
from understudy.workspace.hashes import hash_model

logger = logging.getLogger(__name__)

_ROWS, _SHARE = 1_000, 0.1  # held out at most
AGREEMENT = "agreement"


def with_agreement(recipe: Recipe) -> Recipe:
    """Return the recipe with a development set, made of unlabelled rows if there is none.

    The teacher's predictions are the labels of these rows, so every score is agreement with the teacher. The
    file is written to the cache, named after all that determines it. Unlabelled rows that are development
    rows are never learnt from (`load_data`).
    """
    data, kind = recipe.data, recipe.task_definition.kind
    has_dev = data.source is not None or data.dev is not None
    if has_dev or data.unlabelled is None or recipe.teacher is None:
        return recipe
    if not kind.has_plain_labels:
        raise RecipeError(f"data.dev must be given: agreement with a teacher is not scored for {kind}.")
    if any(isinstance(column, int) for column in data.columns.values()):
        raise RecipeError("data.dev must be given where data.columns are numbers.")
    names = _labels(recipe)
    rows, content = load_unlabelled(recipe.task_definition, data, names)
    decided_by = [content, hash_model(recipe.teacher), names, recipe.max_length, data.columns]
    key = hashlib.sha256(json.dumps(decided_by).encode()).hexdigest()[:32]
    file = cache_folder() / AGREEMENT / f"{key}.jsonl"
    count = max(1, min(_ROWS, int(_SHARE * len(rows))))
    logger.warning(
        "There is no development set: %d unlabelled rows are held out, and the teacher's predictions are "
        "their labels. Scores say how far the student agrees with its teacher.",
        count,
    )
    if not file.exists():
        chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:count])
        _write(file, recipe, rows.select(chosen), names)
    update: dict[str, Any] = {"dev": str(file)}
    if names is not None and recipe.task_definition.labels is None:
        update["labels"] = list(names)  # a few rows need not have every label
    return recipe.model_copy(update={"data": data.model_copy(update=update)})


def _labels(recipe: Recipe) -> tuple[str, ...] | None:
    """Return the names of the classes in the teacher's order."""
    task, config = recipe.task_definition, load_config(str(recipe.teacher))
    if not task.kind.has_named_labels:
        return None
    return model_labels(config, task) or tuple(map(str, range(config.num_labels)))


def _write(file: Path, recipe: Recipe, rows: Dataset, names: tuple[str, ...] | None) -> None:
    """Write rows with the teacher's predictions as labels."""
    task, teacher = recipe.task_definition, str(recipe.teacher)
    tokenizer = load_tokenizer(teacher)
    split = prepare_split(task, rows, tokenizer, max_length=recipe.max_length, stride=recipe.data.stride)
    model = load_model(teacher, task, names, fine_tuned=True)
    values = split.judge(predict_logits(model, tokenizer, split.encoded, batch_size=64)).values
    lines = []
    for row, value in zip(rows, values, strict=True):
        fields = {name: row[name] for name in task.kind.inputs if row.get(name) is not None}
        label = label_names(value, names) if names is not None else value
        named = {**fields, task.kind.label_field: label}
        lines.append({str(recipe.data.columns.get(name, name)): one for name, one in named.items()})
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
