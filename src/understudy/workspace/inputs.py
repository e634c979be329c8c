"""The description of a model's inputs and predictions, saved with students and artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerFast

from understudy.data.load import TaskData
from understudy.recipe.recipe import Recipe


def describe_input(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, data: TaskData, inputs: Sequence[str]
) -> dict[str, Any]:
    """Describe what a predictor needs to know: fields, labels, lengths, padding, inputs and outputs.

    Args:
        inputs: names of the model's inputs.
    """
    task = recipe.task_definition
    ids = {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}
    columns = next(iter(data.splits.values())).column_names
    return {
        "task": task.name,
        "kind": task.kind.name,
        "fields": [name for name in task.kind.inputs if name in columns],
        "columns": {
            name: column
            for name, column in data.columns.items()
            if name in task.kind.inputs and isinstance(column, str)
        },
        "labels": data.labels,
        "unanswerable": task.unanswerable,
        "max_length": recipe.max_length,
        "stride": recipe.data.stride,
        "truncation_side": tokenizer.truncation_side,
        "padding": {name: ids[name] for name in ids if name in inputs},
        "inputs": list(inputs),
        "outputs": list(task.kind.outputs),
    }
