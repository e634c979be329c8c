"""The setting `class_weights` of a recipe, and where it has no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from understudy.data.settings import LabelName
from understudy.errors import RecipeError
from understudy.recipe.distillation import SoftLabelSettings

if TYPE_CHECKING:
    from understudy.recipe.recipe import Recipe

ClassWeights = Literal["balanced"] | dict[LabelName, Annotated[float, Field(gt=0.0)]]


def check_class_weights(recipe: Recipe) -> None:
    """Refuse class weights where rows have no class, or where no loss reads labels."""
    blocks: list[tuple[str, Any, dict[str, Any]]] = [("", recipe.class_weights, recipe.training)]
    if recipe.finetune is not None:
        blocks.append(("finetune.", recipe.finetune.class_weights, recipe.finetune.training))
    for block, given, training in blocks:
        if given is None:
            continue
        kind = recipe.task_definition.rows
        if not (kind.has_named_labels and kind.has_plain_labels):
            raise RecipeError(
                f"{block}class_weights has no effect on {kind}: its rows do not have one class each. Leave "
                "it out."
            )
        if training.get("label_smoothing_factor"):
            raise RecipeError(
                f"{block}training.label_smoothing_factor has no effect beside {block}class_weights. Leave "
                "one out."
            )
    if recipe.class_weights is not None and not _reads_labels(recipe):
        raise RecipeError(
            "class_weights has no effect: the loss against labels has no weight (soft_labels.alpha is 1, or "
            "joint.labels is 0)."
        )


def _reads_labels(recipe: Recipe) -> bool:
    """Return whether any trial of a distillation has a loss against labels."""
    if recipe.joint is not None:
        return any(choice.labels for choice in recipe.joint.choices())
    if recipe.method in ("soft-labels", "patient"):
        soft = recipe.soft_labels or SoftLabelSettings()
        return any(choice.alpha < 1 for choice in soft.choices())
    return True
