"""The recipe saved with a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.artifacts.artifact import CARD, is_artifact, read_artifact, shipped_inside, split_form
from understudy.errors import ModelError, RecipeError
from understudy.models.settings import DISTILLED, STUDENT, student_inside
from understudy.recipe.load import apply_settings, load_recipe, parse_settings
from understudy.recipe.recipe import Recipe
from understudy.workspace.folders import ARTIFACT_FOLDER, RECIPE


def scored_model(model: str | Path) -> str | Path:
    """Return the model to score in a folder: the artifact of a whole run, or a distillation's student."""
    shipped = shipped_inside(model)
    return shipped if is_artifact(shipped) else student_inside(model)


def saved_recipe(model: str | Path) -> Path | None:
    """Return the path of the recipe that a model was made with; None if there is none.

    It is in the model's folder, above a student's, or in the distillation beside a whole run's artifact.
    """
    folder = Path(split_form(model)[0]).expanduser()
    above = {STUDENT: [RECIPE], ARTIFACT_FOLDER: [f"{DISTILLED}/{RECIPE}"]}.get(folder.name, [])
    places = [folder / RECIPE, *(folder.resolve().parent / name for name in above)]
    return next((place for place in places if place.is_file()), None)


def why_no_recipe(model: str | Path) -> str:
    """Explain why `saved_recipe` finds no recipe for a model."""
    is_folder = Path(model).expanduser().is_dir()
    return f"{model} has no {RECIPE} that would tell it" if is_folder else f"{model} is not a folder here"


def evaluation_recipe(
    model: str | Path,
    *,
    task: str | None,
    data: str | Path | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """Return the given recipe, or the one saved with the model, or one with only the task and data."""
    saved = saved_recipe(model)
    if recipe is None and task is None and saved is not None:
        recipe = saved
    folder, _ = split_form(model)
    if recipe is not None:
        values = load_recipe(recipe).model_dump(exclude_defaults=True)
    elif is_artifact(folder):
        if data is None and not any(name.startswith("data.") for name in parse_settings(settings)):
            raise ModelError(
                f"{model} is an artifact: its scores on the development set are in its {CARD}. Give other "
                "rows to score it on: --dev rows.csv"
            )
        values = _artifact_values(Path(folder).expanduser())
    elif task is not None:
        values = {"task": task}
    else:
        raise RecipeError(
            "--task must be given, e.g. --task mrpc, or --task classification for a file of your own: "
            f"{why_no_recipe(model)}."
        )
    if data is not None:
        values["data"] = {
            **{
                key: value
                for key, value in values.get("data", {}).items()
                if key not in ("source", "train", "dev", "dev_share", "test", "encoding")
            },
            "source": str(data),
        }
    if task is not None:
        values["task"] = task
    if parse_settings(settings).get("data.dev") is not None:  # instead of the rows that it was scored on
        for name in ("dev_share", "encoding"):
            values.get("data", {}).pop(name, None)
        if data is None:
            values.get("data", {}).pop("source", None)
    return Recipe.from_mapping(apply_settings(values, settings))


def _artifact_values(folder: Path) -> dict[str, Any]:
    """Return the recipe values that an artifact stores: how it reads its rows."""
    artifact = read_artifact(folder)
    data = {"columns": artifact.columns, "max_length": artifact.max_length, "stride": artifact.stride}
    return {"task": artifact.task, "data": {key: value for key, value in data.items() if value}}
