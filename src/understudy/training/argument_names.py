"""The names and types of TrainingArguments, read from its source: importing it takes seconds."""

from __future__ import annotations

import ast
import builtins
import difflib
import importlib.util
import typing
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from understudy.errors import RecipeError

# Arguments that we set: in a recipe they would have no effect, or break the stage.
OWNED: Mapping[str, str] = {
    "output_dir": "give it as --output-dir",
    "do_train": "the command decides what is done",
    "do_eval": "use eval_strategy",
    "do_predict": "use understudy evaluate",
    "resume_from_checkpoint": "run the same command again: it continues by itself",
    "remove_unused_columns": "columns are chosen by the collator",
    "label_names": "labels are found by the task",
    "length_column_name": "lengths are in the column 'length'",
    "local_rank": "torchrun and accelerate launch set it",
    "prediction_loss_only": "scores need the predictions",
    "eval_do_concat_batches": "scores need the predictions whole",
    "batch_eval_metrics": "scores need the predictions whole",
    "save_only_model": "a run could not be continued from such a checkpoint",
    "ignore_data_skip": "a run that is continued would read other rows",
    "auto_find_batch_size": "the batch size decides the order of rows; set per_device_train_batch_size",
    "use_cache": "an encoder has no cache of keys and values",
    "use_liger_kernel": "its kernels are for decoders",
    "liger_kernel_config": "its kernels are for decoders",
    "torch_compile": "captured layers and checkpoints need the plain modules",
    "torch_compile_backend": "captured layers and checkpoints need the plain modules",
    "torch_compile_mode": "captured layers and checkpoints need the plain modules",
    "debug": "a loss that becomes NaN or infinite stops the run and names its rows anyway",
    **dict.fromkeys(
        ("fsdp", "fsdp_config", "deepspeed", "parallelism_config"),
        "encoders fit on one device; start one process for each with torchrun",
    ),
    **dict.fromkeys(
        (
            "push_to_hub",
            "hub_token",
            "hub_private_repo",
            "hub_model_id",
            "hub_strategy",
            "hub_always_push",
            "hub_revision",
        ),
        "checkpoints stay here; upload the finished student with understudy push",
    ),
}


class _Names(dict[str, Any]):
    """Names in an annotation. One that is not known is an enumeration of strings."""

    def __missing__(self, name: str) -> type[str]:
        return str


@cache
def argument_types() -> dict[str, Any]:
    """Return the type of every argument of TrainingArguments by name."""
    package = importlib.util.find_spec("transformers")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("transformers is not installed", name="transformers")
    source = Path(package.submodule_search_locations[0], "training_args.py").read_text("utf-8")
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    body = next(node.body for node in classes if node.name == "TrainingArguments")
    names = _Names({**vars(builtins), **vars(typing)})
    return {
        node.target.id: eval(ast.unparse(node.annotation), {}, names)
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not _is_internal(node)
    }


def _is_internal(node: ast.AnnAssign) -> bool:
    """Return whether a field is not a constructor argument: `field(init=False)`."""
    return isinstance(node.value, ast.Call) and any(
        one.arg == "init" and ast.unparse(one.value) == "False" for one in node.value.keywords
    )


def check_training(block: Mapping[str, Any]) -> dict[str, Any]:
    """Check the names and types of a `training:` block; return the values in their proper types.

    >>> check_training({"learning_rate": "1e-4"})
    {'learning_rate': 0.0001}
    """
    types = argument_types()
    checked = {}
    for name, value in block.items():
        if name in OWNED:
            raise RecipeError(f"training.{name} cannot be set: {OWNED[name]}.")
        if name not in types:
            close = difflib.get_close_matches(name, types, n=3)
            hint = f"Did you mean {' or '.join(close)}?" if close else "See its documentation."
            raise RecipeError(f"training.{name} is not an argument of TrainingArguments. {hint}")
        if value is False and bool not in (types[name], *typing.get_args(types[name])):
            value = "no"  # YAML 1.1 reads `eval_strategy: no` as False
        try:
            checked[name] = TypeAdapter(types[name]).validate_python(value)
        except ValidationError as error:
            expected = " or ".join(sorted({detail["msg"] for detail in error.errors()}))
            raise RecipeError(f"training.{name}: {expected}; got {value!r}.") from None
    return checked
