"""A task's encoded rows, and the student that learns from them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from datasets import Dataset, concatenate_datasets
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast, TrainingArguments

from understudy.data.encode import ENCODER_INPUTS, Collator, encode
from understudy.data.encodings import TRUNCATED
from understudy.data.load import UNLABELLED, TaskData, announce, load_data
from understudy.data.sources import dev_splits
from understudy.data.task import Task
from understudy.data.unlabelled import epoch_places
from understudy.errors import RecipeError
from understudy.evaluation.score import EvaluationSplit, prepare_split
from understudy.models.cut import Cut
from understudy.models.heads import model_labels
from understudy.models.pretrained import check_max_length, load_config, load_tokenizer
from understudy.models.student import load_student
from understudy.recipe.class_weights import ClassWeights
from understudy.recipe.recipe import Recipe
from understudy.training.class_weights import class_weights
from understudy.training.trainer import autocast_dtype
from understudy.workspace.result import data_content

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """A task's rows, encoded with a model's tokenizer.

    Attributes:
        train: labelled rows, then unlabelled ones, each once.
        num_labelled: the number of labelled rows; of windows, if texts are cut into windows.
        places: the places of `train` that an epoch reads; None if it reads each once.
        dev: the development sets by name; the first is used for model selection.
        class_weights: the weight of each class in the loss against labels; None for 1 each.
    """

    task: Task
    tokenizer: PreTrainedTokenizerFast
    data: TaskData
    train: Dataset
    dev: dict[str, EvaluationSplit]
    num_labelled: int
    places: NDArray[np.int64] | None = None
    class_weights: tuple[float, ...] | None = None

    @property
    def epoch(self) -> Dataset:
        """The rows that an epoch reads."""
        return self.train if self.places is None else self.train.select(self.places)

    @property
    def unlabelled(self) -> Dataset:
        """The rows without labels, each once."""
        return self.train.select(range(self.num_labelled, len(self.train)))

    @property
    def first_dev(self) -> EvaluationSplit:
        return next(iter(self.dev.values()))


def prepare(recipe: Recipe, model: str, arguments: TrainingArguments) -> Prepared:
    """Load, check and encode a recipe's data for a model; in a distributed run, on the main process first."""
    task, config = recipe.task_definition, load_config(model)
    tokenizer = load_tokenizer(model)
    check_max_length(config, tokenizer, recipe.max_length)
    lengths: dict[str, Any] = {"max_length": recipe.max_length, "stride": recipe.data.stride}
    splits = dev_splits(task, recipe.data)
    with arguments.main_process_first(desc="reading the data"):
        data = load_data(task, recipe.data, ("train", *splits), labels=model_labels(config, task))
        if arguments.should_save:
            announce(data)
        train, num_labelled = _encode_train(recipe, data, tokenizer, lengths)
        dev = {split: prepare_split(task, data.splits[split], tokenizer, **lengths) for split in splits}
    share, num_unlabelled = recipe.data.labelled_share, len(train) - num_labelled
    places = epoch_places(num_labelled, num_unlabelled, share, recipe.seed)
    weights = weights_of_classes(recipe.class_weights, task, data)
    prepared = Prepared(task, tokenizer, data, train, dev, num_labelled, places, weights)
    if arguments.should_save:
        announce_truncated(prepared, recipe.max_length)
    return prepared


def weights_of_classes(setting: ClassWeights | None, task: Task, data: TaskData) -> tuple[float, ...] | None:
    """Return the weight of each class over the labelled training rows; None without such a setting."""
    if setting is None:
        return None
    if "train" not in data.splits:
        raise RecipeError("class_weights has no effect without labelled training rows.")
    labels = np.asarray(data.splits["train"][task.kind.label_field][:])
    return class_weights(setting, labels, data.labels or (), task.labels)


def num_truncated(prepared: Prepared) -> dict[str, int]:
    """Return, by split, how many rows are longer than the limit and are cut.

    Empty for kinds that read long texts in windows, or do not record it.
    """
    if TRUNCATED not in prepared.train.column_names:
        return {}
    flags, num_labelled = prepared.train[TRUNCATED][:], prepared.num_labelled
    counts = {"train": sum(flags[:num_labelled]), UNLABELLED: sum(flags[num_labelled:])}
    counts |= {name: sum(split.encoded[TRUNCATED][:]) for name, split in prepared.dev.items()}
    return {name: count for name, count in counts.items() if name in prepared.data.splits}


def announce_truncated(prepared: Prepared, max_length: int) -> None:
    """Log how many rows of each split are cut, if any are."""
    for split, count in num_truncated(prepared).items():
        total = len(prepared.data.splits[split])
        if count:
            logger.info(
                "%s: %s of %s rows (%.1f %%) are longer than data.max_length of %d tokens and are cut.",
                *(split, f"{count:,}", f"{total:,}", 100 * count / total, max_length),
            )


def describe_rows(prepared: Prepared) -> dict[str, Any]:
    """Return the part of result.json that describes the rows a model learns from."""
    content = data_content(prepared.data)
    for split, count in num_truncated(prepared).items():
        content["counts"][split]["truncated"] = count
    if prepared.class_weights is not None:
        names = prepared.data.labels or ()
        content["class_weights"] = dict(zip(names, prepared.class_weights, strict=True))
    return content


def _encode_train(
    recipe: Recipe, data: TaskData, tokenizer: PreTrainedTokenizerFast, lengths: Mapping[str, Any]
) -> tuple[Dataset, int]:
    """Encode the rows to learn from, labelled ones first, and count the labelled ones."""
    kind = recipe.task_definition.kind
    if UNLABELLED not in data.splits:
        train = encode(data.splits["train"], kind, tokenizer, **lengths)
        return train, len(train)
    parts = [
        encode(data.splits[split], kind, tokenizer, labelled=split == "train", **lengths)
        for split in ("train", UNLABELLED)
        if split in data.splits
    ]
    return concatenate_datasets(parts), len(parts[0]) if len(parts) == 2 else 0


# The size of the sample that a student is cut and fitted on, and its batch size.
_SAMPLE_TOKENS = 20_000
_SAMPLE_BATCH = 32


def start_student(
    recipe: Recipe, prepared: Prepared, arguments: TrainingArguments, *, draft: bool = False
) -> tuple[PreTrainedModel, Cut | None]:
    """Initialise the student according to a recipe; new weights are drawn from torch's random state.

    Args:
        draft: whether any weights will do, because only shapes are checked or steps are timed.

    Returns:
        The student, and how it was cut from a model of the teacher's width, if it was.
    """
    places = np.random.default_rng(recipe.seed).permutation(len(prepared.train))
    chosen = places[: 1 if draft else _SAMPLE_TOKENS].tolist()
    return load_student(
        recipe.student,
        recipe.tokenizer_model,
        prepared.task,
        prepared.data.labels,
        sample=lambda: sample_batches(prepared.tokenizer, prepared.train, chosen),
        dropout=recipe.dropout,
        attention=choose_attention(recipe, arguments),
        fit=not draft,
        precision=fitting_precision(arguments),
    )


def fitting_precision(arguments: TrainingArguments) -> torch.dtype:
    """Return the precision for fitting a student, which runs on the CPU even if training uses a GPU."""
    return autocast_dtype(arguments) if arguments.device.type == "cpu" else torch.float32


def sample_batches(
    tokenizer: PreTrainedTokenizerFast, rows: Any, places: Sequence[int]
) -> Iterator[dict[str, Tensor]]:
    """Yield rows as batches of encoder inputs, as many as hold enough text; choices become separate texts."""
    chosen, num_tokens = [], 0
    for place in places:
        chosen.append(rows[place])
        num_tokens += _num_tokens(chosen[-1])
        if num_tokens >= _SAMPLE_TOKENS:
            break
    chosen.sort(key=_num_tokens)  # little padding
    collate = Collator(tokenizer)
    for start in range(0, len(chosen), _SAMPLE_BATCH):
        batch = collate(chosen[start : start + _SAMPLE_BATCH])
        yield {name: batch[name].flatten(0, -2) for name in batch if name in ENCODER_INPUTS}


def _num_tokens(row: Mapping[str, Any]) -> int:
    ids = row["input_ids"]
    return sum(map(len, ids)) if ids and isinstance(ids[0], list) else len(ids)


def choose_attention(recipe: Recipe, arguments: TrainingArguments) -> str | None:
    """Return the recipe's attention, or eager on a CPU, where its backward pass is faster."""
    return recipe.attention or ("eager" if arguments.device.type == "cpu" else None)
