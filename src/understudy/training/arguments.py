"""The `training:` block of a recipe: transformers' TrainingArguments by name, checked."""

from __future__ import annotations

import dataclasses
import difflib
import os
import typing
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from transformers import TrainingArguments
from transformers.integrations.integration_utils import (
    INTEGRATION_TO_CALLBACK,
    get_available_reporting_integrations,
)

from understudy.errors import RecipeError
from understudy.training.precision import hardware_precision

# Our defaults, where those of TrainingArguments would surprise.
DEFAULTS: Mapping[str, Any] = {
    "per_device_train_batch_size": 32,
    "per_device_eval_batch_size": 64,
    "train_sampling_strategy": "group_by_length",
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 2,
    "logging_steps": 50,
    # The filter would show the last finite loss instead of NaN.
    "logging_nan_inf_filter": False,
    "report_to": ["tensorboard"],
    # Otherwise the bar disappears together with transformers' own messages.
    "disable_tqdm": False,
    "weight_decay": 0.01,
    "warmup_steps": 0.1,
}

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
        "checkpoints stay here; upload the finished student with huggingface_hub",
    ),
}
# Useless, and an error in torch, without worker processes.
_NEED_WORKERS = (
    "dataloader_persistent_workers",
    "dataloader_multiprocessing_context",
    "dataloader_prefetch_factor",
)


@cache
def _types() -> dict[str, Any]:
    hints = typing.get_type_hints(TrainingArguments)
    return {field.name: hints[field.name] for field in dataclasses.fields(TrainingArguments) if field.init}


def check_training(block: Mapping[str, Any]) -> dict[str, Any]:
    """Check the names and types of a `training:` block; return the values in their proper types.

    >>> check_training({"learning_rate": "1e-4"})
    {'learning_rate': 0.0001}
    """
    types = _types()
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


# Limits that TrainingArguments does not check, but training fails without.
_AT_LEAST: Mapping[str, float] = {
    "per_device_train_batch_size": 1,
    "per_device_eval_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "learning_rate": 0.0,
}


def _check_values(values: Mapping[str, Any]) -> None:
    for name, least in _AT_LEAST.items():
        if values.get(name, least) < least:
            raise RecipeError(f"training.{name} must be at least {least:g}; got {values[name]}.")
    for name in _NEED_WORKERS if not values.get("dataloader_num_workers") else ():
        if values.get(name):
            raise RecipeError(f"training.{name} has no effect without dataloader_num_workers. Set both.")
    if values.get("ddp_backend") is not None and "WORLD_SIZE" not in os.environ:
        raise RecipeError("training.ddp_backend has no effect on one process. Start several with torchrun.")
    trackers = values.get("report_to") or ()
    for tracker in [trackers] if isinstance(trackers, str) else trackers:
        if tracker in ("all", "none"):
            continue
        if tracker not in INTEGRATION_TO_CALLBACK:
            raise RecipeError(
                f"training.report_to: {tracker} is not known (known: {', '.join(INTEGRATION_TO_CALLBACK)})."
            )
        if tracker not in get_available_reporting_integrations():  # type: ignore[no-untyped-call]
            raise RecipeError(f"training.report_to: {tracker} is not installed. Install it, or use none.")


def build_arguments(block: Mapping[str, Any], output_dir: Path) -> TrainingArguments:
    """Build the TrainingArguments of a stage whose checkpoints and logs go to `output_dir`."""
    on_cpu = not torch.accelerator.is_available() or bool(block.get("use_cpu"))
    values: dict[str, Any] = {**DEFAULTS, **check_training(block)}
    # Otherwise TrainingArguments rejects bf16 if there is no accelerator.
    values["use_cpu"] = on_cpu
    if "bf16" not in block and "fp16" not in block:
        values["bf16"] = hardware_precision(use_cpu=on_cpu).name == "bf16"
    # Pinned memory is for copies to a device; without one it only causes a warning.
    values.setdefault("dataloader_pin_memory", not on_cpu)
    _check_values(values)
    try:
        arguments = TrainingArguments(
            output_dir=str(output_dir),
            remove_unused_columns=False,
            label_names=None,
            **values,
        )
    except (ValueError, TypeError, ImportError) as error:
        raise RecipeError(f"training: TrainingArguments refuses these values: {error}") from error
    if arguments.n_gpu > 1:
        raise RecipeError(
            f"training: one process sees {arguments.n_gpu} GPUs. Start one process for each: torchrun "
            f"--nproc-per-node {arguments.n_gpu} -m understudy …, or use one: CUDA_VISIBLE_DEVICES=0."
        )
    return arguments
