"""Finished models in their folders, loaded for scoring or export."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from understudy.artifacts.artifact import is_artifact, read_artifact, split_form
from understudy.artifacts.forms import ExportSubject, run_exported
from understudy.artifacts.onnx import input_names
from understudy.artifacts.session import open_model
from understudy.data.labels import check_labels
from understudy.data.load import TaskData, announce, load_data
from understudy.data.sources import dev_splits
from understudy.errors import ModelError, OutputError
from understudy.evaluation.outcomes import Logits
from understudy.evaluation.score import predict_logits
from understudy.models.heads import model_labels
from understudy.models.pretrained import check_max_length, load_config, load_model, load_tokenizer
from understudy.recipe.recipe import Recipe
from understudy.workspace.folders import RESULT
from understudy.workspace.recipes import saved_recipe
from understudy.workspace.splits import split_of


def refuse_unfinished(model: str | Path) -> None:
    """Refuse a folder whose run was interrupted."""
    saved = saved_recipe(model)
    if saved is not None and not saved.with_name(RESULT).is_file():
        raise OutputError(f"{model} holds an unfinished run. Run its command again: it continues.")


def load_to_score(model: str, run: Recipe, data: TaskData) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Load a finished model that fits the data, and its tokenizer."""
    refuse_unfinished(model)
    config = load_config(model)
    tokenizer = load_tokenizer(model)
    check_max_length(config, tokenizer, run.max_length)
    return load_model(model, run.task_definition, data.labels, fine_tuned=True), tokenizer


@dataclass(frozen=True)
class Scorer:
    """A model to score: its tokenizer, and a function from encoded rows to logits."""

    tokenizer: PreTrainedTokenizerFast
    logits: Callable[[Dataset], Logits]


def open_scorer(model: str, run: Recipe, data: TaskData, *, batch_size: int) -> Scorer:
    """Open a finished model, or a form of an artifact, that fits the data.

    Args:
        batch_size: rows per forward pass of a model; an artifact takes as many as during its export.
    """
    folder, form = split_form(model)
    if is_artifact(folder):
        return _open_artifact(Path(folder).expanduser(), form, run, data)
    loaded, tokenizer = load_to_score(model, run, data)
    return Scorer(tokenizer, lambda rows: predict_logits(loaded, tokenizer, rows, batch_size=batch_size))


def _open_artifact(folder: Path, form: str | None, run: Recipe, data: TaskData) -> Scorer:
    artifact, kind = read_artifact(folder), run.task_definition.kind
    if artifact.kind != kind.name:
        raise ModelError(f"{folder} is an artifact for {artifact.kind}, and {run.task} is {kind}.")
    if artifact.labels is not None and data.labels is not None:
        check_labels(str(folder), artifact.labels, len(artifact.labels), data.labels)
    tokenizer = load_tokenizer(str(folder))
    session = open_model(folder, artifact, artifact.choose(form), threads=None)
    # Scoring predicts a label from a probability of one half, so its own threshold is shifted there.
    thresholds = [artifact.thresholds[name] for name in artifact.labels or ()] if artifact.thresholds else []
    shift = np.array([artifact.temperature * math.log(one / (1 - one)) for one in thresholds], np.float32)

    def logits(rows: Dataset) -> Logits:
        made = run_exported(session, kind, artifact.inputs, tokenizer, rows)
        return tuple(one - shift for one in made) if thresholds else made

    return Scorer(tokenizer, logits)


def load_subject(model: str, run: Recipe, *, openvino: bool) -> ExportSubject:
    """Load a model to export, and the rows to test it on."""
    names = [*dev_splits(run.task_definition, run.data), *(["train"] if openvino else [])]
    labels = model_labels(load_config(model), run.task_definition)
    data = load_data(run.task_definition, run.data, names, labels=labels)
    announce(data)
    loaded, tokenizer = load_to_score(model, run, data)
    splits = {split: split_of(run, rows, tokenizer) for split, rows in data.splits.items()}
    train = splits.pop("train", None)
    inputs = input_names(loaded, tokenizer.model_input_names)
    return ExportSubject(model, loaded, tokenizer, data, run.task_definition, splits, train, inputs)
