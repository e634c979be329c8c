"""Tiny teachers, and settings under which their students learn in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kinds import EXAMPLES

import understudy

QUIET = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no"}
TRAIN = {
    "training.num_train_epochs": 1,
    "training.per_device_train_batch_size": 8,
    "training.gradient_accumulation_steps": 1,
    "training.load_best_model_at_end": False,
    "training.eval_strategy": "no",
    **{f"training.{key}": value for key, value in QUIET.items()},
    "dropout": 0.0,
    "data.max_length": 64,
}

# Both stages of TinyBERT.
DISTIL: dict[str, Any] = {
    "dropout": 0.0,
    "data.max_length": 64,
    "prediction.search": None,
    "prediction.training.eval_strategy": "no",
    **{
        f"{stage}.training.{key}": value
        for stage in ("intermediate", "prediction")
        for key, value in {
            **QUIET,
            "per_device_train_batch_size": 8,
            "gradient_accumulation_steps": None,
            "learning_rate": 5e-3,
            "logging_steps": 10,
        }.items()
    },
}


def train_teacher(encoder: Path, kind: str, folder: Path) -> Path:
    example = EXAMPLES[kind]
    file = str(example.write(folder))
    settings = TRAIN | {
        "data.train": file,
        "data.dev": file,
        "training.max_steps": example.steps,
        "training.learning_rate": 5e-3,
    }
    understudy.finetune(encoder, task=example.task, output_dir=folder / "teacher", settings=settings)
    return folder / "teacher"


def method_settings(stages: tuple[str, ...], **training: Any) -> dict[str, Any]:
    """For the stages of soft labels and Patient KD."""
    block = {
        **QUIET,
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": None,
        "load_best_model_at_end": None,
        "eval_strategy": "no",
        "learning_rate": 5e-3,
        "logging_steps": 10,
        **training,
    }
    settings = {f"{stage}.training.{key}": value for stage in stages for key, value in block.items()}
    return settings | {f"{stage}.search": None for stage in stages} | {"dropout": 0.0, "data.max_length": 64}
