"""What the checks of a preflight look at, and what they find."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import transformers
from transformers import PreTrainedTokenizerFast

from understudy.data.load import TaskData
from understudy.data.sources import dev_splits
from understudy.data.task import Task
from understudy.errors import ModelError, RecipeError
from understudy.evaluation.score import EvaluationSplit, prepare_split
from understudy.models.pretrained import load_config, load_tokenizer
from understudy.models.student import base_config, check_start
from understudy.recipe.distillation import LayerSettings
from understudy.recipe.recipe import Recipe

_ASKED = 128  # rows a teacher is asked about


@dataclass(frozen=True)
class Finding:
    """Something that would go wrong, or turn out otherwise than meant.

    Attributes:
        check: its short name, the same each time.
        level: an `error` stops the run, a `warning` does not.
        message: what was expected, what is there, and what to do.
    """

    check: str
    level: Literal["error", "warning"]
    message: str


@dataclass(frozen=True)
class PlannedRun:
    """What the checks look at. Data that cannot be read, and models that cannot be found, say so here.

    Attributes:
        fine_tuned: the teacher is given, and not an encoder that becomes one.
    """

    recipe: Recipe
    output_dir: Path
    data: TaskData
    teacher: str
    fine_tuned: bool

    @property
    def task(self) -> Task:
        return self.recipe.task_definition

    @cached_property
    def teacher_config(self) -> Any:
        return load_config(self.teacher)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        return load_tokenizer(self.teacher)

    @cached_property
    def student_config(self) -> Any:
        """None where it cannot be made, which `check_student` says."""
        try:
            check_start(self.recipe.student)
            return base_config(self.recipe.student, self.teacher)
        except (RecipeError, ModelError):
            return None

    @cached_property
    def dev(self) -> EvaluationSplit:
        """Some rows of the first development set, encoded."""
        rows = self.data.splits[dev_splits(self.task, self.recipe.data)[0]]
        chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:_ASKED])
        return prepare_split(
            self.task,
            rows.select(chosen),
            self.tokenizer,
            max_length=self.recipe.max_length,
            stride=self.recipe.data.stride,
        )

    @cached_property
    def layers(self) -> LayerSettings | None:
        """The block that compares layers, if the method has one."""
        blocks = {"tinybert": self.recipe.intermediate, "joint": self.recipe.joint}
        return blocks.get(str(self.recipe.method))


def untrained(config: Any, planned: PlannedRun) -> Any:
    """A model of a config with the task's head and weights as they are drawn."""
    config = type(config).from_dict(config.to_dict())
    planned.task.kind.configure(config, planned.data.labels)
    return getattr(transformers, planned.task.auto_class).from_config(config)


def num_parameters(config: Any, planned: PlannedRun) -> int:
    """Of a model of this config; nothing is drawn."""
    with torch.device("meta"):
        return int(untrained(config, planned).num_parameters())
