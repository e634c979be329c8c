"""Training, resuming and saving, shared by all training stages."""

from __future__ import annotations

import csv
import io
import json
import logging
import pickle
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast, Trainer, TrainingArguments
from transformers.trainer_utils import TrainOutput

from understudy.data.task import Task
from understudy.errors import OutputError, RecipeError
from understudy.files import write_atomically
from understudy.training.checkpoint import last_complete_checkpoint
from understudy.training.interrupt import checkpoint_on_interrupt

logger = logging.getLogger(__name__)

LOSSES = "losses.csv"


def whole_batch(arguments: TrainingArguments) -> int:
    """Return how many rows a step reads, over all processes."""
    per_process = arguments.train_batch_size * arguments.gradient_accumulation_steps
    return int(per_process * arguments.world_size)


def choose_on_dev(block: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """Return a training block that selects its best checkpoint, if asked to, by the task's metric."""
    metric = block.get("metric_for_best_model")
    if metric is not None and metric.removeprefix("eval_") not in ("loss", *task.metrics):
        raise RecipeError(
            f"training.metric_for_best_model: {task.name} has no metric {metric} (there are "
            f"{', '.join(task.metrics)})."
        )
    if not block.get("load_best_model_at_end"):
        return dict(block)
    return {"metric_for_best_model": task.headline, "greater_is_better": True, **block}


def train_to_the_end(trainer: Trainer) -> TrainOutput:
    """Train, resuming from the last complete checkpoint if there is one."""
    checkpoint = last_complete_checkpoint(Path(str(trainer.args.output_dir)))
    if checkpoint is not None:
        step = str(checkpoint).rpartition("-")[2]
        logger.warning("Continuing from step %s: %s", step, checkpoint)
        _restore_problem_type(trainer.model, checkpoint)
    try:
        with checkpoint_on_interrupt(trainer):
            return trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except pickle.UnpicklingError:
        raise OutputError(
            f"{checkpoint} holds a program that would run while it is loaded. It was not run. This "
            "checkpoint is not what understudy wrote: use --overwrite, or another --output-dir."
        ) from None


def _restore_problem_type(model: Any, checkpoint: Path) -> None:
    """Restore the only setting that transformers' models change during training: the type of loss."""
    file, config = checkpoint / "config.json", getattr(model, "config", None)
    if file.is_file() and config is not None:
        config.problem_type = json.loads(file.read_text("utf-8")).get("problem_type")


def save_model(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path, original_config: Any
) -> None:
    """Save a model for plain transformers, with its original dropout, for further training."""
    for name, value in original_config.to_dict().items():
        if "dropout" in name:
            setattr(model.config, name, value)
    model.save_pretrained(folder)
    tokenizer.backend_tokenizer.no_truncation()  # our max_length is not a property of the tokenizer
    tokenizer.save_pretrained(folder)


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a finished stage."""
    for path in folder.glob("checkpoint-*"):
        shutil.rmtree(path)


def write_losses(
    path: Path, history: Sequence[Mapping[str, float]], *, num_epochs: float = 1.0
) -> dict[str, dict[str, float]]:
    """Write each log of the training loss as a line of a CSV file; return the first and last of each term.

    Args:
        num_epochs: passes over the data per epoch of the Trainer.
    """
    lines = [
        {"step": log["step"], "epoch": round(log["epoch"] * num_epochs, 4), **_losses(log)}
        for log in history
        if "loss" in log
    ]
    if not lines:
        return {}
    write_table(path, lines)
    return {name: {"first": lines[0][name], "last": lines[-1][name]} for name in list(lines[0])[2:]}


def write_table(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write a CSV file atomically."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_atomically(path, text.getvalue())


def _losses(log: Mapping[str, float]) -> dict[str, float]:
    named = {name: value for name, value in log.items() if name.startswith("loss_")}
    terms = {name.removeprefix("loss_"): round(value, 6) for name, value in named.items()}
    return {"loss": round(log["loss"], 6), **{name: terms[name] for name in sorted(terms, key=place_of)}}


_ORDER = (
    "embeddings",
    "attention",
    "hidden",
    "predictions",
    "starts",
    "ends",
    "margins",
    "first",
    "similarities",
    "labels",
    "soft_labels",
    "patient",
)


def place_of(term: str) -> tuple[int, int, str]:
    """Return a sort key for the terms of a loss, whose order is lost in a checkpoint.

    >>> sorted(["hidden_10", "predictions", "attention_1", "embeddings", "hidden_2", "mine"], key=place_of)
    ['embeddings', 'attention_1', 'hidden_2', 'hidden_10', 'predictions', 'mine']
    """
    kind = term.rstrip("0123456789")
    number, kind = int(term[len(kind) :] or 0), kind.removesuffix("_")
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER), number, term
