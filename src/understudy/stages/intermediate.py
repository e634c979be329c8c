"""Intermediate layer distillation: a student learns its teacher's layers (TinyBERT Eqs. 7 to 9)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast, TrainingArguments, set_seed

from understudy.capture.query_key import capture, prepare_capture
from understudy.capture.representations import Representations
from understudy.data.encode import Collator
from understudy.errors import RecipeError
from understudy.models.layer_map import layer_map
from understudy.models.pretrained import load_model
from understudy.models.projections import PROJECTIONS, Projections, saved_projections
from understudy.models.student import STUDENT, base_config
from understudy.models.teacher import cast_linears, keep_layers, load_teacher
from understudy.objectives.compose import layer_losses, weight_of
from understudy.progress import progress
from understudy.recipe.distillation import IntermediateSettings
from understudy.recipe.recipe import Recipe
from understudy.stages.result import RESULT, TRAINING_FOLDER, write_result
from understudy.stages.teacher_cache import autocast_dtype
from understudy.stages.training import (
    LOSSES,
    Prepared,
    remove_checkpoints,
    save_model,
    start_student,
    train_to_the_end,
    write_losses,
    write_table,
)
from understudy.training.arguments import build_arguments
from understudy.training.intermediate import ProjectedStudent, intermediate_terms, project
from understudy.training.trainer import EVALUATED, LayerTrainer, Terms

logger = logging.getLogger(__name__)

HELD_OUT_LOSSES = "held_out.csv"
HELD_OUT_ROWS = 1_000


def distill_intermediate(
    recipe: Recipe, settings: IntermediateSettings, prepared: Prepared, output_dir: Path
) -> None:
    """Train a student's encoder into `output_dir/student`; its head stays as it was drawn.

    A folder that holds the finished stage is left as it is.
    """
    if (output_dir / RESULT).exists():
        remove_checkpoints(output_dir / TRAINING_FOLDER)
        return
    assert recipe.teacher is not None  # distill checked it
    # Nothing is scored between the steps: the head has learnt nothing yet. Pooler and head take no part.
    own = {"seed": recipe.seed, "eval_strategy": "no", "ddp_find_unused_parameters": True}
    arguments = build_arguments({**own, **settings.training}, output_dir / TRAINING_FOLDER)
    set_seed(arguments.seed)
    student, channels = start_student(recipe, prepared, arguments)
    content = learn_layers(
        student,
        load_teacher(recipe.teacher, prepared.task, prepared.data.labels),
        settings,
        arguments,
        LayerRows(prepared.tokenizer, prepared.train, prepared.first_dev.encoded),
        output_dir,
        channels=channels,
        learnt=saved_projections(recipe.student.model),
        padded=recipe.normalization == "padded",
        saved_config=base_config(recipe.student, recipe.teacher),
        load_saved=lambda saved: load_model(saved, prepared.task, prepared.data.labels, fine_tuned=True),
    )
    if content:
        write_result(output_dir, {"stage": "intermediate", **content})
        remove_checkpoints(output_dir / TRAINING_FOLDER)


@dataclass(frozen=True)
class LayerRows:
    """Encoded rows to learn from, and some that no step learns from."""

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
    channels: torch.Tensor | None,
    learnt: Mapping[str, torch.Tensor],
    padded: bool,
    saved_config: Any,
    load_saved: Callable[[str], PreTrainedModel],
    num_epochs: float = 1.0,
) -> dict[str, Any]:
    """Train a student on its teacher's layers, save it to `output_dir/student` with its projections, and
    say what it learnt; nothing in a distributed run's other processes.

    Args:
        teacher: frozen; its deeper layers are taken away.
        channels: the teacher's, where the student's were cut from them.
        learnt: projections that the student was saved with, to go on from.
        saved_config: with the dropout that the student is saved with.
        load_saved: loads the student's folder again.
        num_epochs: in one of Trainer's.
    """
    model, teacher_layers = match(student, teacher, settings, channels)
    if model.projections.go_on_from(learnt) and arguments.should_save:
        logger.info("The student's projections go on from those it was saved with.")
    keep_layers(teacher, max(teacher_layers))
    cast_linears(teacher, autocast_dtype(arguments))
    teacher.to(arguments.device)  # type: ignore[arg-type]  # transformers' decorator loses the type
    terms = intermediate_terms(
        teacher,
        teacher_layers,
        weights=settings.weights,
        relation_heads=settings.relation_heads,
        padded=padded,
        precision=autocast_dtype(arguments),
    )

    def held_out(model: nn.Module) -> dict[str, float]:
        return held_out_losses(model, terms, rows, arguments.device)

    first = held_out(model) if arguments.should_save else {}
    trainer = LayerTrainer(
        model,
        arguments,
        data_collator=Collator(rows.tokenizer, keep_row=True),
        train_dataset=rows.train,
        eval_dataset=rows.held_out,
        processing_class=rows.tokenizer,
        terms=terms,
        weights=settings.weights,
        held_out=held_out,
    )
    outcome = train_to_the_end(trainer)
    if not arguments.should_save:
        return {}
    save_model(student, rows.tokenizer, output_dir / STUDENT, saved_config)
    save_file(model.projections.state_dict(), output_dir / STUDENT / PROJECTIONS)
    # Loaded anew: what was trained in bf16 keeps casting to it.
    saved = load_saved(str(output_dir / STUDENT))
    prepare_capture(saved)
    last = held_out(ProjectedStudent(saved, model.projections, model.layers))
    history = trainer.state.log_history
    write_held_out(output_dir / HELD_OUT_LOSSES, history)
    return {
        "layer_map": list(teacher_layers),
        "losses": write_losses(output_dir / LOSSES, history, num_epochs=num_epochs),
        "held_out": {name: {"first": first[name], "last": last[name]} for name in first},
        "steps": outcome.global_step,
        # Since the last start, where the run was interrupted.
        "seconds": {"training": round(outcome.metrics["train_runtime"], 3)},
        "seed": arguments.seed,
    }


def held_out_losses(
    model: nn.Module, terms: Terms, rows: LayerRows, device: torch.device
) -> dict[str, float]:
    """Each term's mean over some of the rows that no step learns from."""
    chosen = range(0, len(rows.held_out), math.ceil(len(rows.held_out) / HELD_OUT_ROWS) or 1)
    collate = Collator(rows.tokenizer)
    model.to(device).eval()
    sums: dict[str, float] = {}
    with torch.no_grad(), progress("Held-out losses", len(chosen), "rows") as advance:
        for start in range(0, len(chosen), _HELD_OUT_BATCH):
            places = chosen[start : start + _HELD_OUT_BATCH]
            batch = collate([rows.held_out[index] for index in places])
            batch = {name: value.to(device) for name, value in batch.items()}
            for name, loss_B in terms(model, batch).items():
                sums[name] = sums.get(name, 0.0) + loss_B.double().sum().item()
            advance(len(places))
    return {name: total / len(chosen) for name, total in sums.items()}


_HELD_OUT_BATCH = 32


def write_held_out(path: Path, history: Sequence[Mapping[str, float]]) -> None:
    """Each evaluation between the steps as a line of a CSV file, where there were any."""
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


def match(
    student: PreTrainedModel,
    teacher: PreTrainedModel,
    settings: IntermediateSettings,
    channels: torch.Tensor | None = None,
) -> tuple[ProjectedStudent, tuple[int, ...]]:
    """Make both models readable, give the student its projections, and check that every term can be
    computed, on a few tokens.

    Args:
        channels: the teacher's, where the student's were cut from them.

    Returns:
        What is trained, and the teacher layer of each student layer.
    """
    teacher_layers = layer_map(
        settings.layer_map, student.config.num_hidden_layers, teacher.config.num_hidden_layers
    )
    student_layers = range(1, len(teacher_layers) + 1)
    _check_weights(settings, len(teacher_layers))
    for model in (student, teacher):
        prepare_capture(model)
    seen_student, seen_teacher = _glance(student, student_layers), _glance(teacher, teacher_layers)
    projections = Projections(
        settings.projection,
        seen_student.embeddings_BLH.shape[-1],
        seen_teacher.embeddings_BLH.shape[-1],
        len(teacher_layers) + 1,
        channels=channels,
    )
    projected = ProjectedStudent(student, projections, student_layers)
    try:
        layer_losses(
            project(seen_student, projections),
            seen_teacher,
            torch.ones(1, _GLANCE),
            weights=settings.weights,
            relation_heads=settings.relation_heads,
        )
    except (ValueError, RuntimeError) as error:
        raise RecipeError(
            f"{settings.block}: {error}. Set {settings.block}.relation_heads for heads, "
            f"{settings.block}.projection for widths, or leave a term out with a weight of 0, e.g. "
            f"{settings.block}.weights.attention=0."
        ) from None
    return projected, teacher_layers


_GLANCE = 4  # tokens


def _glance(model: PreTrainedModel, layers: Sequence[int]) -> Representations:
    tokens = torch.full((1, _GLANCE), model.config.vocab_size - 1)
    training = model.training
    with torch.no_grad():
        seen = capture(
            model.train(False).base_model,
            {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)},
            layers,
        )
    model.train(training)
    return seen


def _check_weights(settings: IntermediateSettings, num_layers: int) -> None:
    """Refuse weights of terms that are none, and those that leave nothing."""
    weights, kinds = settings.weights, ("embeddings", "attention", "hidden")
    names = [
        "embeddings",
        *(f"{kind}_{layer}" for kind in kinds[1:] for layer in range(1, num_layers + 1)),
    ]
    unknown = sorted(set(weights) - {*names, *kinds})
    if unknown:
        raise RecipeError(
            f"{settings.block}.weights.{unknown[0]} is no term. Kinds are {', '.join(kinds)}; layers are "
            f"counted from 1 to {num_layers}, e.g. attention_{num_layers}."
        )
    learnt = [name for name in names if weight_of(name, weights)]
    if not learnt:
        raise RecipeError(
            f"{settings.block}.weights leaves nothing to learn. Leave out {settings.block}: instead."
        )
    if settings.relation_heads is not None and not any(name.startswith("attention") for name in learnt):
        raise RecipeError(f"{settings.block}.relation_heads has no effect: no attention term has a weight.")
