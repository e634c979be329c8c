"""The head that a model was saved with, and its labels. Without torch and transformers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from understudy.data.kind import RowKind
from understudy.data.labels import named_labels
from understudy.data.task import Task


def has_head_for(config: Any, task: Task | RowKind) -> bool:
    """Return whether a checkpoint was saved with a head of the task's kind, or needs none."""
    kind = task.rows if isinstance(task, Task) else task
    if not kind.needs_head:
        return True
    suffix = task.auto_class.removeprefix("AutoModel")
    return any(name.endswith(suffix) for name in config.architectures or ())


def model_labels(config: Any, task: Task) -> tuple[str, ...] | None:
    """Return the label names of a fine-tuned model; None if it has no such head or does not name them."""
    if not task.rows.has_named_labels or not has_head_for(config, task):
        return None
    return named_labels(config.id2label)


def read_head(folder: Path) -> SimpleNamespace | None:
    """Return what `has_head_for` and `model_labels` read of a model folder's config; None if it is broken."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        names = {int(index): str(name) for index, name in config.get("id2label", {}).items()}
        return SimpleNamespace(architectures=config.get("architectures"), id2label=names)
    except (OSError, ValueError, AttributeError):
        return None
