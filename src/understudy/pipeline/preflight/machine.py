"""Preflight checks of the machine: can it do what the recipe asks, with the packages installed?"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from understudy.distillation.runs import choose_on_dev
from understudy.errors import RecipeError
from understudy.pipeline.preflight.planned_run import Finding, PlannedRun, num_parameters
from understudy.recipe.distillation import IntermediateSettings, TrialSettings
from understudy.recipe.recipe import STAGES
from understudy.training.arguments import build_arguments
from understudy.training.precision import hardware_precision, measure_precisions


def check_processes(_: PlannedRun) -> Iterator[Finding]:
    """Refuse several processes: export and timing support only one."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        yield Finding(
            "processes",
            "error",
            "run is one process, and torchrun has started several. Run finetune and distill under torchrun, "
            "then export and bench without.",
        )


def check_training_blocks(planned: PlannedRun) -> Iterator[Finding]:
    """Check for TrainingArguments that transformers or this machine would refuse."""
    recipe = planned.recipe
    blocks: dict[str, Sequence[Any]] = {"finetune": [recipe.finetune] if recipe.finetune else []}
    for name in STAGES:
        block: TrialSettings | IntermediateSettings | None = getattr(recipe, name)
        blocks[name] = block.choices() if block is not None else []
    for name, choices in blocks.items():
        for choice in choices:
            try:
                build_arguments(choose_on_dev(choice.training, planned.task), planned.output_dir)
            except RecipeError as error:
                yield Finding("training", "error", f"{name}.{error}")
                break


def check_openvino(planned: PlannedRun) -> Iterator[Finding]:
    """Check that OpenVINO is installed if the recipe exports to it."""
    wanted = planned.recipe.export is not None and planned.recipe.export.openvino
    if wanted and not all(importlib.util.find_spec(name) for name in ("openvino", "nncf")):
        yield Finding(
            "openvino",
            "error",
            "export.openvino needs packages that are not installed: pip install "
            "'understudy-distill[openvino]'; or "
            "--set export.openvino=false.",
        )


def check_disk(planned: PlannedRun) -> Iterator[Finding]:
    """Check the disk space: checkpoints take several times a model, augmented rows many times a dataset."""
    place = next(path for path in (planned.output_dir, *planned.output_dir.parents) if path.exists())
    there = sum(file.stat().st_size for file in planned.output_dir.rglob("*") if file.is_file())
    free, needed = shutil.disk_usage(place).free, disk_needed(planned) - there  # minus a resumed run's
    if needed > free:
        yield Finding(
            "disk",
            "error",
            f"about {_say_bytes(needed)} are needed in {planned.output_dir} and {_say_bytes(free)} are free. "
            "Make room, or use another --output-dir.",
        )


def _say_bytes(count: float) -> str:
    """Return a size in words.

    >>> _say_bytes(2.53e9), _say_bytes(3.1e6)
    ('2.5 GB', '3.1 MB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def check_accelerator(planned: PlannedRun) -> Iterator[Finding]:
    """Warn if a GPU would stay unused while the CPU trains."""
    blocks = [getattr(planned.recipe, name) for name in STAGES if getattr(planned.recipe, name) is not None]
    if torch.accelerator.is_available():
        if any(block.training.get("use_cpu") for block in blocks):
            yield Finding(
                "accelerator",
                "warning",
                "a GPU is there, and the recipe trains on the CPU: take use_cpu out of its training blocks.",
            )
    elif any(Path("/dev").glob("nvidia[0-9]*")):
        yield Finding(
            "accelerator",
            "warning",
            "this machine has an NVIDIA GPU that PyTorch cannot use, so that the CPU will train. Install a "
            "PyTorch built for CUDA, and check the driver with nvidia-smi.",
        )


def check_precision(planned: PlannedRun) -> Iterator[Finding]:
    """Warn about bf16 on a CPU without bf16 instructions, where it is emulated and slow."""
    blocks = [getattr(planned.recipe, name) for name in (*STAGES, "finetune")]
    wanted = any(block is not None and block.training.get("bf16") for block in blocks)
    fastest = hardware_precision()
    if wanted and not torch.accelerator.is_available() and fastest.name != "bf16":
        speeds = measure_precisions()
        yield Finding(
            "precision",
            "warning",
            f"the recipe trains in bf16, and {fastest.reason}: one layer makes {speeds['bf16']:.0f} training "
            f"steps a second in bf16 here and {speeds['fp32']:.0f} in fp32. Leave bf16 out of the training "
            "blocks, or set precision=auto.",
        )


def disk_needed(planned: PlannedRun) -> int:
    """Return the peak disk use in bytes: two checkpoints with weights and Adam's moments, and the models."""
    if planned.student_config is None:
        return 0
    student, teacher = (
        num_parameters(one, planned) for one in (planned.student_config, planned.teacher_config)
    )
    weights = 4 * (2 * 3 * student + 3 * student)
    if not planned.fine_tuned:
        weights += 4 * (2 * 3 * teacher + teacher)
    if planned.recipe.export is None or planned.recipe.export.teacher_int8:
        weights += 5 * teacher  # ONNX files in fp32 and int8
    rows = planned.train_rows
    variants = planned.recipe.augment.variants if planned.recipe.augment is not None else 0
    # Text, tokens of eight bytes etc.: about four times the size of the checked rows.
    return weights + int(4 * (1 + variants) * (rows.data.nbytes if len(rows) else 0))
