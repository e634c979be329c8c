"""What the stages that train have in common: before, during and after the Trainer."""

from __future__ import annotations

import csv
import io
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast, Trainer, TrainingArguments
from transformers.trainer_utils import TrainOutput

from understudy.data.encode import ENCODER_INPUTS, Collator, encode
from understudy.data.load import TaskData, load_data
from understudy.data.sources import dev_splits
from understudy.data.task import Task
from understudy.errors import RecipeError
from understudy.evaluation.score import EvaluationSplit, prepare_split
from understudy.files import write_atomically
from understudy.models.pretrained import check_max_length, load_config, load_tokenizer, model_labels
from understudy.models.student import load_student
from understudy.recipe.recipe import Recipe
from understudy.stages.result import announce
from understudy.training.checkpoint import last_complete_checkpoint

logger = logging.getLogger(__name__)

LOSSES = "losses.csv"


@dataclass(frozen=True)
class Prepared:
    """A task's rows, read by a model's tokenizer.

    Attributes:
        dev: every development set by its name, the one used for choosing first.
    """

    task: Task
    tokenizer: PreTrainedTokenizerFast
    data: TaskData
    train: Dataset
    dev: dict[str, EvaluationSplit]

    @property
    def first_dev(self) -> EvaluationSplit:
        return next(iter(self.dev.values()))


def prepare(recipe: Recipe, model: str, arguments: TrainingArguments) -> Prepared:
    """Load, check and encode a recipe's data for a model; in a distributed run one process first."""
    task, config = recipe.task_row, load_config(model)
    tokenizer = load_tokenizer(model)
    check_max_length(config, tokenizer, recipe.max_length)
    lengths: dict[str, Any] = {"max_length": recipe.max_length, "stride": recipe.data.stride}
    splits = dev_splits(task, recipe.data)
    with arguments.main_process_first(desc="reading the data"):
        data = load_data(task, recipe.data, ("train", *splits), labels=model_labels(config, task))
        if arguments.should_save:
            announce(data)
        train = encode(data.splits["train"], task.kind, tokenizer, **lengths)
        dev = {split: prepare_split(task, data.splits[split], tokenizer, **lengths) for split in splits}
    return Prepared(task, tokenizer, data, train, dev)


# Texts by which a narrower student is cut, and how many of them at a time.
SAMPLE_ROWS = 512
_SAMPLE_BATCH = 32


def start_student(
    recipe: Recipe, prepared: Prepared, arguments: TrainingArguments, *, sample_rows: int = SAMPLE_ROWS
) -> tuple[PreTrainedModel, Tensor | None]:
    """The student as a recipe starts it, its weights drawn from torch's random state where they are new,
    and the teacher's channels that its channels were cut from."""
    chosen = np.random.default_rng(recipe.seed).permutation(len(prepared.train))[:sample_rows].tolist()
    return load_student(
        recipe.student,
        recipe.reader,
        prepared.task,
        prepared.data.labels,
        sample=lambda: sample_batches(prepared.tokenizer, prepared.train, chosen),
        dropout=recipe.dropout,
        attention=choose_attention(recipe, arguments),
    )


def sample_batches(
    tokenizer: PreTrainedTokenizerFast, rows: Any, places: Sequence[int]
) -> Iterator[dict[str, Tensor]]:
    """Some rows as batches of the encoder's inputs; a question's choices are texts."""
    collate = Collator(tokenizer)
    for start in range(0, len(places), _SAMPLE_BATCH):
        batch = collate([rows[place] for place in places[start : start + _SAMPLE_BATCH]])
        yield {name: batch[name].flatten(0, -2) for name in batch if name in ENCODER_INPUTS}


def choose_attention(recipe: Recipe, arguments: TrainingArguments) -> str | None:
    """The recipe's; else eager on a CPU, where its backward pass is the faster one."""
    return recipe.attention or ("eager" if arguments.device.type == "cpu" else None)


def whole_batch(arguments: TrainingArguments) -> int:
    """How many rows a step reads, on all processes together."""
    per_process = arguments.train_batch_size * arguments.gradient_accumulation_steps
    return int(per_process * arguments.world_size)


def choose_on_dev(block: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """A training block in which the best checkpoint, where one is wanted, is so by the task's metric."""
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
    """Train, from the last whole checkpoint where there is one."""
    checkpoint = last_complete_checkpoint(Path(str(trainer.args.output_dir)))
    if checkpoint is not None:
        logger.warning("Continuing from %s", checkpoint)
    return trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)


def save_model(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path, original_config: Any
) -> None:
    """Save a model that plain transformers loads, with the dropout it came with, for further training."""
    for name, value in original_config.to_dict().items():
        if "dropout" in name:
            setattr(model.config, name, value)
    model.save_pretrained(folder)
    tokenizer.backend_tokenizer.no_truncation()  # our max_length is no property of the tokenizer
    tokenizer.save_pretrained(folder)


def remove_checkpoints(folder: Path) -> None:
    """What a finished stage no longer needs."""
    for path in folder.glob("checkpoint-*"):
        shutil.rmtree(path)


def write_losses(
    path: Path, history: Sequence[Mapping[str, float]], *, num_epochs: float = 1.0
) -> dict[str, dict[str, float]]:
    """Each log of the training loss as a line of a CSV file; returns the first and last of each term.

    Args:
        num_epochs: in one of Trainer's.
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
    """A CSV file, whole or not at all."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    write_atomically(path, text.getvalue())


def _losses(log: Mapping[str, float]) -> dict[str, float]:
    named = {name: value for name, value in log.items() if name == "loss" or name.startswith("loss_")}
    return {name.removeprefix("loss_"): round(value, 6) for name, value in named.items()}
