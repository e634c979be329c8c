"""Checks of soft labels: predictions that nothing reads, and uses for which a file is not enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.errors import RecipeError
from understudy.recipe.distillation import SoftLabelSettings

if TYPE_CHECKING:
    from understudy.recipe.recipe import Recipe


def check_soft_labels(recipe: Recipe) -> None:
    """Refuse settings for predictions if none are read, and a file of predictions where it is not enough."""
    soft = recipe.soft_labels or SoftLabelSettings()
    if recipe.method == "soft-labels" and not soft.reads_predictions:
        idle = {
            "data.unlabelled": recipe.data.unlabelled,
            "unseen": recipe.unseen or None,
            "soft_labels.predictions": soft.predictions,
        }
        given = [name for name, value in idle.items() if value is not None]
        if given:
            raise RecipeError(
                f"{given[0]} has no effect: with soft_labels.alpha 0 only labels are learnt. Leave it out, "
                "or set a larger alpha."
            )
    if soft.predictions is not None:
        _check_predictions(recipe)


def _check_predictions(recipe: Recipe) -> None:
    """Refuse uses for which a file of predictions is not enough."""
    if recipe.method == "patient":
        raise RecipeError(
            "soft_labels.predictions holds no hidden states, which method: patient needs. Use soft-labels."
        )
    if recipe.data.unlabelled is not None:
        raise RecipeError("data.unlabelled needs a teacher; soft_labels.predictions has the training rows.")
    if recipe.teacher is not None:
        raise RecipeError("teacher and soft_labels.predictions exclude each other: the file is the teacher.")
    if not recipe.task_definition.rows.accepts_predictions:
        raise RecipeError(
            "soft_labels.predictions serves classes, choices and scores; predictions of "
            f"{recipe.task_definition.rows} belong to a tokenizer's tokens. Give a teacher."
        )
