"""The origin of a student, read from the folders around it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from understudy.artifacts.card import Origin
from understudy.hub import is_hub_name, split_revision
from understudy.models.settings import DISTILLED, STUDENT
from understudy.recipe.load import load_recipe
from understudy.recipe.recipe import Recipe
from understudy.workspace.folders import RESULT
from understudy.workspace.recipes import saved_recipe


def find_origin(student: str, model: str) -> Origin:
    """Read the origin of a student from the files that its run left next to it."""
    saved = saved_recipe(model)
    name = _title(Path(student).resolve()) if Path(student).is_dir() else student
    if saved is None or not saved.with_name(RESULT).is_file():
        return Origin(name)
    recipe = load_recipe(saved)
    result = json.loads(saved.with_name(RESULT).read_text("utf-8"))
    encoder = _encoder(recipe.teacher) if recipe.teacher is not None else recipe.model
    bases = [_hub_name(one) for one in (recipe.student.model, recipe.student.source, encoder)]
    origin = Origin(
        name,
        base_models=[base for base in dict.fromkeys(bases) if base is not None],
        dataset=_hub_name(recipe.data.source),
        recipe=_without_paths(recipe),
    )
    if result["stage"] != "distill":
        return origin
    return replace(
        origin,
        teacher=_teacher_name(recipe.teacher),
        method=result["method"],
        teacher_scores=result.get("against", {}).get("scores", {}),
        teacher_parameters=result["parameters"].get("teacher"),
        vocabulary=result.get("vocabulary"),
    )


def _title(folder: Path) -> str:
    """Return a student's title: its folder's name, or the first one above it that is not generic."""
    while folder.name in (DISTILLED, STUDENT):
        folder = folder.parent
    return folder.name


def _teacher_name(teacher: str | None) -> str | None:
    """Return the encoder that the teacher was fine-tuned from, if known, otherwise the teacher's own name."""
    if teacher is None:
        return None
    encoder = _encoder(teacher)
    return _shown(teacher) if encoder == teacher else f"{_shown(encoder)}, fine-tuned"


def _encoder(teacher: str) -> str:
    """Return what a teacher was fine-tuned from, if its folder says so, otherwise the teacher."""
    saved = saved_recipe(teacher)
    return (load_recipe(saved).model if saved is not None else None) or teacher


def _hub_name(name: str | None) -> str | None:
    """Return a hub name of a saved recipe without its revision; None for paths, which are absolute there."""
    if name is None or Path(name).is_absolute():
        return None
    name, _ = split_revision(name)
    # Some of the oldest repositories have no user: bert-base-uncased.
    return name if is_hub_name(name if "/" in name else f"user/{name}") else None


def _shown(name: str | None) -> str | None:
    """Return a hub name unchanged, and only the last part of an absolute path, for privacy."""
    return Path(name).name if name is not None and Path(name).is_absolute() else name


def _without_paths(recipe: Recipe) -> str:
    def shorten(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: shorten(one) for key, one in value.items()}
        if isinstance(value, list):
            return [shorten(one) for one in value]
        return _shown(value) if isinstance(value, str) else value

    return yaml.safe_dump(shorten(yaml.safe_load(recipe.to_yaml())), sort_keys=False, allow_unicode=True)
