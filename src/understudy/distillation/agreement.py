"""Scoring without labels: agreement of the student with its teacher on held-out rows."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from understudy.data.kind import Row, RowKind
from understudy.data.labels import label_names
from understudy.data.load import cache_folder, load_data, load_unlabelled
from understudy.data.settings import DataSettings, without_unlabelled
from understudy.errors import RecipeError
from understudy.evaluation.score import predict_logits
from understudy.files import is_whole, write_sealed
from understudy.models.heads import model_labels
from understudy.models.pretrained import load_config, load_model, load_tokenizer
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import resolve_paths
from understudy.workspace.hashes import hash_model
from understudy.workspace.splits import split_of

logger = logging.getLogger(__name__)

# Part of every cache key: increase it when the same text would give other rows.
FORMAT_VERSION = 2
_ROWS, _SHARE, _FEWEST = 1_000, 0.1, 20
AGREEMENT = "agreement"


def resolve_distillation(recipe: Recipe) -> Recipe:
    """Resolve a recipe's paths, and give it a development set made of unlabelled rows if it has none.

    The teacher's predictions are the labels of these rows, so every score is agreement with the teacher. The
    file is written to the cache, under a name that depends on everything that determines it. Unlabelled rows
    that are development rows are never learnt from (`load_data`).
    """
    recipe = resolve_paths(recipe)
    data, task = recipe.data, recipe.task_definition
    has_dev = any(one is not None for one in (data.source, data.dev, data.dev_share))
    if has_dev or data.unlabelled is None or recipe.teacher is None:
        return recipe
    if not task.kind.predicts_labels:
        raise RecipeError(f"data.dev must be given: agreement with a teacher is not scored for {task.kind}.")
    if any(isinstance(column, int) for column in data.columns.values()):
        raise RecipeError("data.dev must be given where data.columns are numbers.")
    names = _labels(recipe)
    rows, content = load_unlabelled(task, data, names)
    if len(rows) < _FEWEST:
        raise RecipeError(
            f"data.dev must be given: to hold some of them out, there must be {_FEWEST} unlabelled rows or "
            f"more, and there are {len(rows)}."
        )
    count = max(2, min(_ROWS, int(_SHARE * len(rows))))
    logger.warning(
        "There is no development set: %d unlabelled rows are held out, and the teacher's predictions are "
        "their labels. Scores say how far the student agrees with its teacher.",
        count,
    )
    train = load_data(task, without_unlabelled(data), ["train"], labels=names) if _has_train(data) else None
    decided_by = [FORMAT_VERSION, content, hash_model(recipe.teacher), names, recipe.max_length, data.columns]
    decided_by += [count, train.hashes if train is not None else {}]
    key = hashlib.sha256(json.dumps(decided_by).encode()).hexdigest()[:32]
    file = cache_folder() / AGREEMENT / f"{key}.jsonl"
    if not is_whole(file):
        known = train.splits["train"] if train is not None else ()
        _write(file, recipe, _choose(rows, known, task.kind, count), names)
    update: dict[str, Any] = {"dev": str(file)}
    if names is not None and data.labels is None and task.labels is None:
        update["labels"] = list(names)  # a few rows may lack some labels
    return recipe.model_copy(update={"data": data.model_copy(update=update)})


def labels_from(recipe: Recipe) -> str | None:
    """Return `teacher` if the development labels are the teacher's predictions."""
    if recipe.data.dev is None:
        return None
    folder = Path(recipe.data.dev).expanduser().resolve().parent
    return "teacher" if folder == (cache_folder() / AGREEMENT).resolve() else None


def _has_train(data: DataSettings) -> bool:
    return data.train is not None or data.augmented is not None


def _choose(rows: Dataset, known: Iterable[Row], kind: RowKind, count: int) -> Dataset:
    """Draw distinct rows that are not training rows, with all rows of the same group."""
    fields = [name for name in kind.group_fields if name in rows.column_names]
    seen = {repr([row[name] for name in fields]) for row in known}
    groups: dict[str, list[int]] = {}
    if kind.group_fields != kind.inputs:  # otherwise the rows of a group are identical
        for place, values in enumerate(zip(*(rows[name][:] for name in fields), strict=True)):
            groups.setdefault(repr(list(values)), []).append(place)
    chosen: list[int] = []
    for place in np.random.default_rng(0).permutation(len(rows)).tolist():
        content = repr([rows[place][name] for name in fields])
        if content not in seen:
            seen.add(content)
            chosen += groups.get(content, [place])
        if len(chosen) >= count:
            break
    if len(chosen) < 2:
        raise RecipeError("data.dev must be given: all unlabelled rows are training rows, or the same.")
    return rows.select(sorted(chosen))


def _labels(recipe: Recipe) -> tuple[str, ...] | None:
    """Return the names of the classes in the teacher's order."""
    task, config = recipe.task_definition, load_config(str(recipe.teacher))
    if not task.kind.has_named_labels:
        return None
    known = recipe.data.labels or model_labels(config, task) or task.labels
    return tuple(known or map(str, range(config.num_labels)))


def _write(file: Path, recipe: Recipe, rows: Dataset, names: tuple[str, ...] | None) -> None:
    """Write rows with the teacher's predictions as labels."""
    task, teacher = recipe.task_definition, str(recipe.teacher)
    tokenizer = load_tokenizer(teacher)
    split = split_of(recipe, rows, tokenizer)
    model = load_model(teacher, task, names, fine_tuned=True)
    logits = predict_logits(model, tokenizer, split.encoded, batch_size=64)
    lines = []
    for row in task.kind.label_rows(task, split.rows, split.encoded, logits[: len(task.kind.outputs)]):
        label = row[task.kind.label_field]
        named = {**row, task.kind.label_field: label_names(label, names) if names is not None else label}
        lines.append({str(recipe.data.columns.get(name, name)): one for name, one in named.items()})
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)  # ASCII, which every encoding has
    write_sealed(file, lambda path: path.write_text(text, recipe.data.encoding or "utf-8"))
