"""Prediction layer distillation: a student learns its teacher's answers (TinyBERT Eq. 10)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list
from datasets import Dataset
from transformers import PreTrainedModel, TrainingArguments, set_seed

from understudy.data.encode import Collator
from understudy.evaluation.score import score_model
from understudy.models.pretrained import load_model
from understudy.models.student import base_config
from understudy.models.teacher import load_teacher
from understudy.recipe.distillation import PredictionSettings
from understudy.recipe.recipe import Recipe
from understudy.stages.result import RESULT, STUDENT, TRAINING_FOLDER, write_result
from understudy.stages.search import Trial, search_grid
from understudy.stages.teacher_logits import add_teacher_logits
from understudy.stages.training import (
    LOSSES,
    Prepared,
    choose_attention,
    choose_on_dev,
    remove_checkpoints,
    save_model,
    start_student,
    train_to_the_end,
    write_losses,
)
from understudy.training.arguments import build_arguments
from understudy.training.intermediate import encoder_inputs
from understudy.training.prediction import prediction_terms
from understudy.training.trainer import DistillationTrainer

TRIALS = "trials"


def distill_predictions(
    recipe: Recipe,
    settings: PredictionSettings,
    prepared: Prepared,
    output_dir: Path,
    *,
    start: Path | None,
    teacher_hash: str,
) -> None:
    """Train a student with its head on the teacher's logits, once for every combination to be tried.

    The best one on the first development set lands in `output_dir/student`. A folder that holds the
    finished stage is left as it is.

    Args:
        start: the student that the intermediate stage left; the recipe's where there was none.
    """
    if (output_dir / RESULT).exists():
        return
    assert recipe.teacher is not None  # distill checked it
    base = build_arguments({"seed": recipe.seed, **settings.training}, output_dir / TRAINING_FOLDER)
    train = add_teacher_logits(
        prepared.train,
        prepared.task.kind,
        load_teacher(recipe.teacher, prepared.task, prepared.data.labels),
        prepared.tokenizer,
        teacher_hash,
        base,
    )

    def run(number: int, values: Mapping[str, Any]) -> float:
        folder = output_dir / TRIALS / str(number)
        return _run_trial(recipe, settings, prepared, train, folder, start=start, values=values)

    trials = _try_all(settings.search, output_dir, run, base)
    if not base.should_save:
        return
    best = output_dir / TRIALS / str(trials[0].number)
    for name in (STUDENT, LOSSES):
        _copy(best / name, output_dir / name)
    content = json.loads((best / RESULT).read_text("utf-8")) | {
        "stage": "prediction",
        "trials": [{"values": trial.values, "score": trial.score} for trial in trials],
    }
    write_result(output_dir, content)
    shutil.rmtree(output_dir / TRIALS)


def _run_trial(
    recipe: Recipe,
    settings: PredictionSettings,
    prepared: Prepared,
    train: Dataset,
    folder: Path,
    *,
    start: Path | None,
    values: Mapping[str, Any],
) -> float:
    """Train once with these values over the recipe's; the score of what was saved, in float32."""
    if (folder / RESULT).exists():
        return float(json.loads((folder / RESULT).read_text("utf-8"))["score"])
    task, labels = prepared.task, prepared.data.labels
    block = choose_on_dev({"seed": recipe.seed, **settings.training, **values}, task)
    arguments = build_arguments(block, folder / TRAINING_FOLDER)
    set_seed(arguments.seed)
    student = _load_start(recipe, prepared, start, arguments)
    leave_out = ["token_type_ids"] if "token_type_ids" not in encoder_inputs(student) else []
    trainer = DistillationTrainer(
        student,
        arguments,
        data_collator=Collator(prepared.tokenizer, keep_row=True, leave_out=leave_out),
        train_dataset=train,
        eval_dataset=prepared.first_dev.encoded,
        processing_class=prepared.tokenizer,
        compute_metrics=prepared.first_dev.metrics,
        terms=prediction_terms(
            task.kind, temperature=settings.temperature, padded=recipe.normalization == "padded"
        ),
        weights={},
    )
    outcome = train_to_the_end(trainer)
    if not arguments.should_save:
        return 0.0
    save_model(
        student, prepared.tokenizer, folder / STUDENT, base_config(recipe.student, str(recipe.teacher))
    )
    saved = load_model(str(folder / STUDENT), task, labels, fine_tuned=True)
    score = score_model(saved, prepared.tokenizer, prepared.first_dev).metrics[task.headline].value
    content = {
        "score": score,
        "values": dict(values),
        "losses": write_losses(folder / LOSSES, trainer.state.log_history),
        "steps": outcome.global_step,
        # Since the last start, where the run was interrupted.
        "seconds": {"training": round(outcome.metrics["train_runtime"], 1)},
        "seed": arguments.seed,
    }
    write_result(folder, content)
    remove_checkpoints(folder / TRAINING_FOLDER)
    return score


def _load_start(
    recipe: Recipe, prepared: Prepared, start: Path | None, arguments: TrainingArguments
) -> PreTrainedModel:
    if start is None:
        return start_student(recipe, prepared, arguments)
    return load_model(
        str(start),
        prepared.task,
        prepared.data.labels,
        fine_tuned=True,
        dropout=recipe.dropout,
        attention=choose_attention(recipe, arguments),
    )


def _try_all(
    space: Mapping[str, Sequence[Any]],
    folder: Path,
    run: Callable[[int, Mapping[str, Any]], float],
    arguments: TrainingArguments,
) -> list[Trial]:
    """Every combination, the best first. In a distributed run the first process says which is next."""
    if not space:
        return [Trial(0, {}, run(0, {}))]
    if arguments.process_index > 0:
        while (order := broadcast_object_list([None])[0]) is not None:
            run(*order)
        return []

    def run_together(number: int, values: Mapping[str, Any]) -> float:
        broadcast_object_list([(number, values)])
        return run(number, values)

    trials = search_grid(space, folder, run_together)
    broadcast_object_list([None])
    return trials


def _copy(source: Path, target: Path) -> None:
    """A file or folder, in place of what an interrupted run may have left."""
    if source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    elif source.exists():
        shutil.copyfile(source, target)
