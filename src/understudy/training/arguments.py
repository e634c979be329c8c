"""TrainingArguments from the `training:` block of a recipe."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainingArguments
from transformers.integrations.integration_utils import (
    INTEGRATION_TO_CALLBACK,
    get_available_reporting_integrations,
)

from understudy.errors import RecipeError
from understudy.training.argument_names import check_training
from understudy.training.precision import hardware_precision

# Our defaults, where those of TrainingArguments would surprise.
DEFAULTS: Mapping[str, Any] = {
    "per_device_train_batch_size": 32,
    "per_device_eval_batch_size": 64,
    "train_sampling_strategy": "group_by_length",
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 2,
    # A share of the steps, with at most MOST_LOGGING_STEPS in between: see LogOften.
    "logging_steps": 0.02,
    # The filter would show the last finite loss instead of NaN.
    "logging_nan_inf_filter": False,
    "report_to": ["tensorboard"],
    # Otherwise the bar disappears together with transformers' own messages.
    "disable_tqdm": False,
    "weight_decay": 0.01,
    "warmup_steps": 0.1,
}

MOST_LOGGING_STEPS = 50

# Useless, and an error in torch, without worker processes.
_NEED_WORKERS = (
    "dataloader_persistent_workers",
    "dataloader_multiprocessing_context",
    "dataloader_prefetch_factor",
)

# Limits that TrainingArguments does not check, but training fails without.
_AT_LEAST: Mapping[str, float] = {
    "per_device_train_batch_size": 1,
    "per_device_eval_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "learning_rate": 0.0,
}


def check_callbacks(callbacks: Sequence[object]) -> None:
    """Refuse callbacks on which Trainer would fail only in its first step."""
    is_list = isinstance(callbacks, Sequence)
    wrong = [one for one in callbacks if not _is_callback(one)] if is_list else [callbacks]
    if wrong:
        raise RecipeError(
            f"callbacks must be a list of transformers' TrainerCallback or subclasses; got {wrong[0]!r}."
        )


def _is_callback(one: object) -> bool:
    # Trainer instantiates a class.
    return isinstance(one, TrainerCallback) or (isinstance(one, type) and issubclass(one, TrainerCallback))


def _check_values(values: Mapping[str, Any]) -> None:
    if values.get("max_steps", -1) < 1 and values.get("max_steps", -1) != -1:
        raise RecipeError(
            f"training.max_steps must be at least 1, or -1 for whole epochs; got {values['max_steps']}."
        )
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
