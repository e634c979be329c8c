"""Fine-tuning of teachers: an encoder with a head, and its trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from transformers import PreTrainedModel, TrainerCallback, TrainingArguments

from understudy.data.encode import Collator
from understudy.data.kind import RowKind
from understudy.distillation.rows import Prepared, choose_attention
from understudy.errors import RecipeError
from understudy.evaluation.score import score_model
from understudy.models.pretrained import load_model
from understudy.recipe.recipe import Recipe
from understudy.training.class_weights import weighted_loss
from understudy.training.trainer import OrderedTrainer
from understudy.workspace.splits import split_of


def start_model(recipe: Recipe, prepared: Prepared, arguments: TrainingArguments) -> PreTrainedModel:
    """Load the recipe's model with the task's head."""
    return load_model(
        str(recipe.model),
        prepared.task,
        prepared.data.labels,
        fine_tuned=False,
        dropout=recipe.dropout,
        attention=choose_attention(recipe, arguments),
    )


@dataclass(frozen=True)
class HeldOut:
    """Training rows, split into those to learn from and those that only choose the best step.

    Attributes:
        learnt, encoded: the encoded rows of both parts.
        learnt_rows, rows: samples of both parts, as checked rows.
    """

    learnt: Dataset
    encoded: Dataset
    learnt_rows: Dataset
    rows: Dataset


_SCORED = 1_000  # rows of each part


def hold_out(prepared: Prepared, share: float, seed: int) -> HeldOut:
    """Split the training rows by their source row: windows of one context stay together, as do the rows of a
    group."""
    groups = group_numbers(prepared.data.splits["train"], prepared.task.rows)
    total = int(groups.max()) + 1
    count = max(1, round(share * total))
    if count >= total:
        raise RecipeError(f"held_out leaves nothing to learn from: {count} of {total} rows are held out.")
    chosen = np.random.default_rng(seed).permutation(total)[:count]
    return hold_out_rows(prepared, np.flatnonzero(np.isin(groups, chosen)))


def group_numbers(rows: Dataset, kind: RowKind) -> NDArray[np.int64]:
    """Return the number of each row's group; for kinds without groups, every row is its own group."""
    if kind.group_fields == kind.inputs:
        return np.arange(len(rows))
    fields = [name for name in kind.group_fields if name in rows.column_names]
    numbers: dict[str, int] = {}
    keys = (repr(values) for values in zip(*(rows[name][:] for name in fields), strict=True))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def hold_out_rows(prepared: Prepared, held: NDArray[np.int64]) -> HeldOut:
    """Split the training rows into those at the given places and the others."""
    rows = prepared.data.splits["train"]
    learnt = np.setdiff1d(np.arange(len(rows)), held)
    is_held = np.isin(np.asarray(prepared.train["row"][:]), np.asarray(rows["row"][:])[held])
    return HeldOut(
        prepared.train.select(np.flatnonzero(~is_held)),
        prepared.train.select(np.flatnonzero(is_held)),
        rows.select(learnt[:: max(1, len(learnt) // _SCORED)][:_SCORED]),
        rows.select(held[:_SCORED]),
    )


def with_held_out(training: Mapping[str, Any]) -> dict[str, Any]:
    """Return a training block that keeps the step with the lowest held-out loss, measured 20 times."""
    clash = [name for name in ("metric_for_best_model", "load_best_model_at_end") if name in training]
    if clash:
        raise RecipeError(f"training.{clash[0]} has no effect beside held_out, which chooses the step.")
    steps = {"eval_strategy": "steps", "eval_steps": 0.05, "save_strategy": "steps", "save_steps": 0.05}
    chosen = {"load_best_model_at_end": True, "metric_for_best_model": "loss", "greater_is_better": False}
    return {**steps, "save_total_limit": 2, **training, **chosen}


def score_memory(
    model: PreTrainedModel, prepared: Prepared, recipe: Recipe, held_out: HeldOut
) -> dict[str, Any]:
    """Score a model on rows it learnt from and on others; the difference shows how much it memorised."""
    scores = {}
    for name, rows in (("train", held_out.learnt_rows), ("held_out", held_out.rows)):
        split = split_of(recipe, rows, prepared.tokenizer)
        scores[name] = score_model(model, prepared.tokenizer, split)
    metric = prepared.task.headline
    return {
        "metric": metric,
        **{name: asdict(score.metrics[metric]) for name, score in scores.items()},
        "rows": {name: score.num_rows for name, score in scores.items()},
    }


def describe_memory(memory: Mapping[str, Any]) -> str:
    """Describe how a model scores on both parts."""
    train, held_out = (memory[name]["value"] for name in ("train", "held_out"))
    return (
        f"The model has {memory['metric']} {train:.3f} on rows it learnt from and {held_out:.3f} on rows "
        "held out of training."
    )


def best_step(trainer: OrderedTrainer) -> int:
    """Return the step whose weights were kept."""
    checkpoint = trainer.state.best_model_checkpoint
    return int(str(checkpoint).rpartition("-")[2]) if checkpoint else trainer.state.global_step


def make_trainer(
    model: PreTrainedModel,
    prepared: Prepared,
    arguments: TrainingArguments,
    callbacks: Sequence[TrainerCallback] = (),
    held_out: HeldOut | None = None,
) -> OrderedTrainer:
    """Build the trainer that fine-tunes a model on a task's labels."""
    return OrderedTrainer(
        model,
        arguments,
        data_collator=Collator(prepared.tokenizer),
        train_dataset=prepared.train if held_out is None else held_out.learnt,
        eval_dataset=prepared.first_dev.encoded if held_out is None else held_out.encoded,
        processing_class=prepared.tokenizer,
        compute_metrics=prepared.first_dev.metrics if held_out is None else None,
        callbacks=list(callbacks),
        compute_loss_func=weighted_loss(prepared.class_weights) if prepared.class_weights else None,
    )
