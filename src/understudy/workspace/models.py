"""Finished models in their folders, loaded for scoring or export."""

from __future__ import annotations

from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from understudy.artifacts.forms import ExportSubject
from understudy.artifacts.onnx import input_names
from understudy.data.load import TaskData, announce, load_data
from understudy.data.sources import dev_splits
from understudy.errors import OutputError
from understudy.evaluation.score import (
    prepare_split,
)
from understudy.models.pretrained import (
    check_max_length,
    load_config,
    load_model,
    load_tokenizer,
    model_labels,
)
from understudy.recipe.recipe import Recipe
from understudy.workspace.folders import RESULT
from understudy.workspace.recipes import saved_recipe


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


def load_subject(model: str, run: Recipe, *, openvino: bool) -> ExportSubject:
    """Load a model to export, and the rows to test it on."""
    names = [*dev_splits(run.task_definition, run.data), *(["train"] if openvino else [])]
    labels = model_labels(load_config(model), run.task_definition)
    data = load_data(run.task_definition, run.data, names, labels=labels)
    announce(data)
    loaded, tokenizer = load_to_score(model, run, data)
    splits = {
        split: prepare_split(
            run.task_definition, rows, tokenizer, max_length=run.max_length, stride=run.data.stride
        )
        for split, rows in data.splits.items()
    }
    train = splits.pop("train", None)
    inputs = input_names(loaded, tokenizer.model_input_names)
    return ExportSubject(model, loaded, tokenizer, data, run.task_definition, splits, train, inputs)
