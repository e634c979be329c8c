"""The input and the findings of the preflight checks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerFast

from understudy.data.load import UNLABELLED, TaskData
from understudy.data.sources import dev_splits
from understudy.data.task import Task
from understudy.errors import ModelError, RecipeError
from understudy.evaluation.score import EvaluationSplit, predict_logits
from understudy.models.pretrained import build_model, load_config, load_model, load_tokenizer
from understudy.models.settings import check_start
from understudy.models.student import base_config
from understudy.recipe.distillation import LayerSettings
from understudy.recipe.recipe import Recipe
from understudy.workspace.splits import split_of

Level = Literal["error", "warning", "note"]
LEVELS = get_args(Level)
_ASKED = 128  # rows that the teacher predicts


@dataclass(frozen=True)
class Finding:
    """Something that would fail, or that would not do what was intended.

    Attributes:
        check: its short, stable name.
        level: an `error` stops the run; a `warning` does not, and neither does a `note`, which is good to
            know.
        message: what was expected, what was found, and what to do.
    """

    check: str
    level: Level
    message: str


@dataclass(frozen=True)
class PlannedRun:
    """The input of the checks. Loading it fails if data cannot be read or models cannot be found.

    Attributes:
        fine_tuned: whether the teacher is given already fine-tuned, rather than as an encoder to fine-tune.
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
        """The student's config, or None if it cannot be built; `check_student` reports why."""
        try:
            check_start(self.recipe.student)
            return base_config(self.recipe.student, self.teacher)
        except (RecipeError, ModelError):
            return None

    @cached_property
    def dev(self) -> EvaluationSplit:
        """A sample of the first development set, encoded."""
        return self._sample(self.data.splits[dev_splits(self.task, self.recipe.data)[0]])

    @cached_property
    def train_sample(self) -> EvaluationSplit:
        """A sample of the labelled training rows, encoded."""
        return self._sample(self.data.splits["train"])

    @cached_property
    def teacher_logits(self) -> dict[str, Any]:
        """The fine-tuned teacher's logits for both samples; the model itself is not kept."""
        model = load_model(self.teacher, self.task, self.data.labels, fine_tuned=True)
        samples = {"dev": self.dev}
        if "train" in self.data.splits:
            samples["train"] = self.train_sample
        return {
            name: predict_logits(model, self.tokenizer, sample.encoded, batch_size=32)
            for name, sample in samples.items()
        }

    def _sample(self, rows: Dataset) -> EvaluationSplit:
        chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:_ASKED])
        return split_of(self.recipe, rows.select(chosen), self.tokenizer)

    @property
    def train_rows(self) -> Dataset:
        """The labelled training rows; the unlabelled ones if there are no others."""
        splits = self.data.splits
        return splits["train"] if "train" in splits else splits[UNLABELLED]

    @property
    def num_train(self) -> int:
        """The number of rows to learn from, with a label or without."""
        return sum(len(self.data.splits.get(split, ())) for split in ("train", UNLABELLED))

    @cached_property
    def layers(self) -> LayerSettings | None:
        """The block that compares layers, if the method has one."""
        joint = self.recipe.joint
        if joint is not None and not joint.layers and "layers" not in joint.search:
            joint = None
        blocks = {"tinybert": self.recipe.intermediate, "joint": joint}
        return blocks.get(str(self.recipe.method))


def untrained(config: Any, planned: PlannedRun) -> Any:
    """Build a model from a config with the task's head and randomly initialised weights."""
    config = type(config).from_dict(config.to_dict())
    planned.task.kind.configure(config, planned.data.labels, planned.teacher_config)
    return build_model(planned.task.kind, config)


def num_parameters(config: Any, planned: PlannedRun) -> int:
    """Return the number of parameters of a model with this config, without allocating weights."""
    with torch.device("meta"):
        return int(untrained(config, planned).num_parameters())
