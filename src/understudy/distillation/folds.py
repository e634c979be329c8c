"""Teachers trained on parts of the rows, so that each row is predicted by one that has not learnt from it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset, concatenate_datasets
from numpy.typing import NDArray
from transformers import TrainerCallback, set_seed

from understudy.data.encode import LABELLED
from understudy.data.kind import RowKind
from understudy.data.load import TaskData
from understudy.distillation.rows import Prepared
from understudy.distillation.runs import remove_checkpoints, save_model, train_to_the_end
from understudy.distillation.teachers import HeldOut, group_numbers, hold_out_rows, make_trainer, start_model
from understudy.errors import RecipeError
from understudy.evaluation.score import score_model
from understudy.models.pretrained import load_config, load_model
from understudy.recipe.recipe import Recipe
from understudy.training.arguments import build_arguments
from understudy.workspace.folders import FOLDS, RESULT, TRAINING_FOLDER
from understudy.workspace.result import read_part, write_part
from understudy.workspace.splits import split_of

logger = logging.getLogger(__name__)

FOLD_SEED = "fold_seed"  # in a teacher's result
# A fold keeps its last step: its own rows must not choose the best one.
_NO_CHOICE = {"eval_strategy": "no", "load_best_model_at_end": False}


def fold_numbers(num_groups: int, num_folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of each row, or of each group of rows; folds differ by at most one in size.

    >>> np.bincount(fold_numbers(10, 3, seed=0)).tolist()
    [4, 3, 3]
    """
    places = np.random.default_rng(seed).permutation(num_groups)
    return places % num_folds


def train_folds(
    recipe: Recipe, prepared: Prepared, output_dir: Path, callbacks: Sequence[TrainerCallback]
) -> dict[str, Any]:
    """Fine-tune a teacher for each of the recipe's folds on the rows of the other folds.

    A fold that is finished is not trained again.

    Returns:
        The part of the result that describes the folds, with the score of each on its own rows; empty if the
        recipe has no folds.
    """
    if recipe.folds is None:
        return {}
    rows = prepared.data.splits["train"]
    groups = group_numbers(rows, prepared.task.rows)
    total = int(groups.max()) + 1
    if recipe.folds > total:
        raise RecipeError(f"folds must be at most the number of training rows, or of their groups: {total}.")
    folds = fold_numbers(total, recipe.folds, recipe.seed)[groups]
    scores = []
    for fold in range(recipe.folds):
        folder = output_dir / FOLDS / str(fold)
        found = read_part(folder)
        if found is None:
            logger.info("Fold %d of %d", fold + 1, recipe.folds)
            part = hold_out_rows(prepared, np.flatnonzero(folds == fold))
            _train_fold(recipe, prepared, part, folder, callbacks)
        if torch.distributed.is_initialized():
            torch.distributed.barrier()
        found = found or read_part(folder)
        assert found is not None  # the first process has written it
        scores.append(found)
    return {FOLDS: scores, FOLD_SEED: recipe.seed}


def _train_fold(
    recipe: Recipe, prepared: Prepared, part: HeldOut, folder: Path, callbacks: Sequence[TrainerCallback]
) -> None:
    values = {"seed": recipe.seed, **recipe.training, **_NO_CHOICE}
    arguments = build_arguments(values, folder / TRAINING_FOLDER)
    set_seed(arguments.seed)
    model = start_model(recipe, prepared, arguments)
    train_to_the_end(make_trainer(model, prepared, arguments, callbacks, part))
    if not arguments.should_save:
        return
    save_model(model, prepared.tokenizer, folder, load_config(str(recipe.model)))
    saved = load_model(str(folder), prepared.task, prepared.data.labels, fine_tuned=True)
    split = split_of(recipe, part.rows, prepared.tokenizer)
    score = score_model(saved, prepared.tokenizer, split)
    metrics = {name: asdict(estimate) for name, estimate in score.metrics.items()}
    write_part(folder, {"rows": score.num_rows, "scores": metrics})
    remove_checkpoints(folder / TRAINING_FOLDER)


@dataclass(frozen=True)
class Folds:
    """The folds of a teacher.

    Attributes:
        models: the folder of each fold.
        of_row: the fold of each training row, by its number.
    """

    models: list[str]
    of_row: dict[int, int]


def read_folds(teacher: str, data: TaskData, kind: RowKind) -> Folds:
    """Return the folds of a teacher for the rows they were made from.

    Raises:
        RecipeError: if it has none, or they were made from other rows.
    """
    file = Path(teacher) / RESULT
    content = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    num_folds = len(content.get(FOLDS, ()))
    if not num_folds:
        raise RecipeError(
            f"unseen needs a teacher with folds, and {teacher} has none. Fine-tune it with --set folds=5."
        )
    if content["hashes"].get("train") != data.hashes.get("train"):
        raise RecipeError(
            "unseen needs the training rows that the teacher's folds were made of; these are others. Take "
            "the same rows, without augmentation, or leave unseen out."
        )
    rows = data.splits["train"]
    groups = group_numbers(rows, kind)
    numbers = fold_numbers(int(groups.max()) + 1, num_folds, content[FOLD_SEED])[groups].tolist()
    models = [str(Path(teacher) / FOLDS / str(fold)) for fold in range(num_folds)]
    return Folds(models, dict(zip(rows["row"][:], numbers, strict=True)))


def answer_by_folds(
    rows: Dataset, teacher: str, folds: Folds, answer: Callable[[Dataset, str], Dataset]
) -> Dataset:
    """Add predictions to encoded rows; a training row gets those of the fold that has not learnt from it.

    Args:
        rows: encoded rows; the teacher itself predicts those without a label.
        answer: adds the predictions of a model to rows.
    """
    labelled = rows[LABELLED][:] if LABELLED in rows.column_names else [1] * len(rows)
    of_row = np.array(
        [
            folds.of_row[number] if is_labelled else -1
            for number, is_labelled in zip(rows["row"][:], labelled, strict=True)
        ]
    )
    parts, places = [], []
    for fold, model in enumerate([*folds.models, teacher]):
        chosen = np.flatnonzero(of_row == (fold if fold < len(folds.models) else -1))
        if len(chosen):
            parts.append(answer(rows.select(chosen), model))
            places.append(chosen)
    return concatenate_datasets(parts).select(np.argsort(np.concatenate(places), kind="stable"))
