"""Intermediate layer distillation: a student learns its teacher's layers (TinyBERT Eqs. 7 to 9)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerFast,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

from understudy.capture.query_key import prepare_capture
from understudy.distillation.rows import Prepared, start_student
from understudy.distillation.runs import (
    LOSSES,
    remove_checkpoints,
    save_model,
    train_to_the_end,
    write_losses,
    write_table,
)
from understudy.errors import RecipeError
from understudy.models.cut import Cut
from understudy.models.pretrained import load_model
from understudy.models.projections import save_projections, saved_projections
from understudy.models.settings import STUDENT
from understudy.models.student import base_config
from understudy.models.teacher import cast_linears, keep_layers, load_teacher
from understudy.recipe.distillation import IntermediateSettings, LayerSettings
from understudy.recipe.recipe import Recipe
from understudy.training.arguments import build_arguments
from understudy.training.model import DistillationModel, match_models
from understudy.training.objectives import TinyBertObjectives
from understudy.training.precision import precision_of
from understudy.training.shared import SharedTeacher
from understudy.training.trainer import EVALUATED, DistillationTrainer, autocast_dtype
from understudy.workspace.folders import TRAINING_FOLDER
from understudy.workspace.result import read_part, write_part

logger = logging.getLogger(__name__)

HELD_OUT_LOSSES = "held_out.csv"


def distill_intermediate(
    recipe: Recipe,
    settings: IntermediateSettings,
    prepared: Prepared,
    output_dir: Path,
    *,
    callbacks: Sequence[TrainerCallback] = (),
    shared: SharedTeacher | None = None,
) -> None:
    """Train a student's encoder into `output_dir/student`; its head keeps its initial weights.

    A folder that holds the finished stage is left unchanged.
    """
    if read_part(output_dir) is not None:
        remove_checkpoints(output_dir / TRAINING_FOLDER)
        return
    assert recipe.teacher is not None  # distill checked it
    # No evaluation during training: the head is untrained. The pooler and the head get no gradients.
    own = {"seed": recipe.seed, "eval_strategy": "no", "ddp_find_unused_parameters": True}
    arguments = build_arguments({**own, **settings.training}, output_dir / TRAINING_FOLDER)
    set_seed(arguments.seed)
    student, cut = start_student(recipe, prepared, arguments)
    content = learn_layers(
        student,
        load_teacher(recipe.teacher, prepared.task, prepared.data.labels),
        settings,
        arguments,
        LayerRows(
            prepared.tokenizer,
            prepared.unlabelled if settings.rows == "unlabelled" else prepared.epoch,
            prepared.first_dev.encoded,
        ),
        output_dir,
        cut=cut,
        learnt=saved_projections(recipe.student.model),
        padded=recipe.normalization == "padded",
        saved_config=base_config(recipe.student, recipe.teacher),
        load_saved=lambda saved: load_model(saved, prepared.task, prepared.data.labels, fine_tuned=True),
        callbacks=callbacks,
        shared=shared,
    )
    if content:
        write_part(output_dir, {"stage": "intermediate", **content})
        remove_checkpoints(output_dir / TRAINING_FOLDER)


@dataclass(frozen=True)
class LayerRows:
    """Encoded rows to train on, and held-out rows."""

    tokenizer: PreTrainedTokenizerFast
    train: Any
    held_out: Any


def learn_layers(
    student: PreTrainedModel,
    teacher: PreTrainedModel,
    settings: IntermediateSettings,
    arguments: TrainingArguments,
    rows: LayerRows,
    output_dir: Path,
    *,
    cut: Cut | None,
    learnt: Mapping[str, torch.Tensor],
    padded: bool,
    saved_config: Any,
    load_saved: Callable[[str], PreTrainedModel],
    num_epochs: float = 1.0,
    callbacks: Sequence[TrainerCallback] = (),
    shared: SharedTeacher | None = None,
) -> dict[str, Any]:
    """Train a student on its teacher's layers and save it to `output_dir/student` with its projections.

    Args:
        teacher: frozen; its unused upper layers are removed.
        cut: how the student was cut from a model of the teacher's width, if it was.
        learnt: projections saved with the student, to continue from.
        saved_config: a config with the dropout that the student is saved with.
        load_saved: loads the student's folder again.
        num_epochs: passes over the data per epoch of the Trainer.
        shared: shares the teacher with other students.

    Returns:
        The content of the stage's result; empty in all but the first process of a distributed run.
    """
    model, teacher_layers = match(student, teacher, settings, cut, padded=padded)
    assert model.projections is not None
    if model.projections.continue_from(learnt) and arguments.should_save:
        logger.info("Continuing from the projections that the student was saved with.")
    keep_layers(teacher, max(teacher_layers))
    cast_linears(teacher, autocast_dtype(arguments))
    trainer = DistillationTrainer(
        model,
        teacher,
        args=arguments,
        train_dataset=rows.train,
        eval_dataset=rows.held_out,
        processing_class=rows.tokenizer,
        callbacks=list(callbacks),
        teacher_layers=teacher_layers,
        shared=shared,
    )
    first = trainer.mean_losses(model, rows.held_out) if arguments.should_save else {}
    outcome = train_to_the_end(trainer)
    if not arguments.should_save:
        return {}
    save_model(student, rows.tokenizer, output_dir / STUDENT, saved_config)
    save_projections(model.projections, output_dir / STUDENT)
    # Reload: a model that was trained in bf16 keeps casting to it.
    saved = load_saved(str(output_dir / STUDENT))
    prepare_capture(saved)
    again = DistillationModel(saved, model.projections, model.objectives, model.layers)
    last = trainer.mean_losses(again, rows.held_out)
    history = trainer.state.log_history
    write_held_out(output_dir / HELD_OUT_LOSSES, history)
    return {
        "layer_map": list(teacher_layers),
        "losses": write_losses(output_dir / LOSSES, history, num_epochs=num_epochs),
        "held_out": {name: {"first": first[name], "last": last[name]} for name in first},
        "steps": outcome.global_step,
        # Since the last start, if the run was interrupted.
        "seconds": {"training": round(outcome.metrics["train_runtime"], 3)},
        "precision": asdict(precision_of(arguments, settings.training)),
        "seed": arguments.seed,
    }


def write_held_out(path: Path, history: Sequence[Mapping[str, float]]) -> None:
    """Write each evaluation during training as a line of a CSV file, if there were any."""
    lines = [
        {"step": log["step"]}
        | {name.removeprefix(EVALUATED): value for name, value in log.items() if name.startswith(EVALUATED)}
        for log in history
        if any(name.startswith(EVALUATED) for name in log)
    ]
    if lines:
        write_table(path, lines)
    else:
        path.unlink(missing_ok=True)


def layer_objectives(settings: LayerSettings, *, padded: bool) -> TinyBertObjectives:
    """Return TinyBERT's layer losses with the settings of a block of the recipe."""
    return TinyBertObjectives(
        settings.layer_map,
        settings.projection,
        settings.weights,
        settings.relation_heads,
        padded,
    )


def match(
    student: PreTrainedModel,
    teacher: PreTrainedModel,
    settings: LayerSettings,
    cut: Cut | None = None,
    *,
    padded: bool = False,
) -> tuple[DistillationModel, tuple[int, ...]]:
    """Prepare both models with the settings of a block of the recipe; see `match_models`."""
    channels = cut.hidden if cut is not None else None
    try:
        return match_models(student, teacher, layer_objectives(settings, padded=padded), channels=channels)
    except RecipeError as error:
        raise RecipeError(f"{settings.block}.{error}") from None
