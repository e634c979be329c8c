"""The recipes of a whole run's stages, taken from its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from understudy.data.settings import without_unlabelled
from understudy.recipe.recipe import Recipe


def teacher_part(recipe: Recipe) -> Recipe:
    """Return the recipe for fine-tuning the teacher of a run."""
    settings = recipe.finetune
    assert settings is not None
    return recipe.model_copy(
        update={
            **_nothing_else(recipe),
            "method": None,
            "model": settings.model,
            "training": settings.training,
            "held_out": settings.held_out,
            "folds": settings.folds,
            "class_weights": settings.class_weights,
            "dropout": settings.dropout,
            "data": without_unlabelled(recipe.data).model_copy(update={"augmented": None}),
        }
    )


def augment_part(recipe: Recipe) -> Recipe:
    """Return the recipe for augmenting the training set of a run."""
    plain = {"method": None, "dropout": None, "attention": None}
    data = without_unlabelled(recipe.data)
    return recipe.model_copy(
        update={**_nothing_else(recipe), **plain, "augment": recipe.augment, "data": data}
    )


def distill_part(recipe: Recipe, teacher: str, augmented: Path) -> Recipe:
    """Return the recipe for distilling in a run: its own, with the teacher and the augmented rows."""
    data = recipe.data
    if recipe.augment is not None:
        data = data.model_copy(update={"augmented": str(augmented)})
    own = _nothing_else(recipe)
    for_run = {name: own[name] for name in ("finetune", "augment", "export", "tolerate")}
    return recipe.model_copy(update={**for_run, "teacher": teacher, "data": data})


def _nothing_else(recipe: Recipe) -> dict[str, Any]:
    """Return the defaults of all keys except the task, the data and others that every stage shares."""
    kept = ("task", "data", "metric", "seed", "precision", "attention", "method")
    return {
        name: field.get_default(call_default_factory=True)
        for name, field in type(recipe).model_fields.items()
        if name not in kept
    }
