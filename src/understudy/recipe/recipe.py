"""Recipe: a frozen description of a run. Unknown keys are refused; every error names its key."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from understudy.data.settings import DataSettings
from understudy.data.tasks import Task, get_task
from understudy.errors import RecipeError
from understudy.training.arguments import check_training


class Recipe(BaseModel):
    """What to train, on what, and how.

    >>> recipe = Recipe.from_mapping({"task": "mrpc", "training": {"num_train_epochs": 4}})
    >>> recipe.max_length
    128
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    """A row of the task table, e.g. `mrpc`; for files of your own the kind, e.g. `classification`."""
    model: str | None = None
    """The model to start from: a folder or a hub name."""
    data: DataSettings = DataSettings()
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    """Every dropout probability while training; the model's own where not given."""
    attention: str | None = None
    """An `attn_implementation` of transformers; where not given eager on a CPU (its backward pass
    is the faster one there), transformers' choice elsewhere."""
    training: dict[str, Any] = {}
    """transformers' TrainingArguments by its own names."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], *, origin: str = "recipe") -> Recipe:
        """Check a mapping, e.g. a YAML file's.

        Raises:
            RecipeError: naming the key, what it may be and what it was.
        """
        try:
            recipe = cls.model_validate(values)
        except ValidationError as error:
            raise RecipeError("\n".join(f"{origin}: {line}" for line in _explain(error))) from None
        try:
            task = get_task(recipe.task)
            training = check_training(recipe.training)
        except RecipeError as error:
            raise RecipeError(f"{origin}: {error}") from None
        return recipe.model_copy(update={"task": task.name, "training": training})

    @property
    def task_row(self) -> Task:
        return get_task(self.task)

    @property
    def max_length(self) -> int:
        return self.data.max_length or self.task_row.max_length

    def to_yaml(self) -> str:
        """What was given, nothing else: reading it back gives the same recipe."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def _explain(error: ValidationError) -> list[str]:
    lines = []
    for detail in error.errors():
        key = ".".join(str(part) for part in detail["loc"] if part not in ("str", "int"))
        got = detail["input"]
        if detail["type"] == "extra_forbidden":
            fields = DataSettings.model_fields if key.startswith("data.") else Recipe.model_fields
            close = difflib.get_close_matches(key.split(".")[-1], fields, n=1)
            hint = f"Did you mean {close[0]!r}? " if close else ""
            lines.append(f"{key} is not a key. {hint}Allowed: {', '.join(fields)}.")
        elif detail["type"] == "missing":
            lines.append(f"{key} must be given, e.g. {key}: mrpc.")
        else:
            lines.append(f"{key}: {detail['msg']}; got {got!r}.")
    return lines
