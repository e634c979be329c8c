"""Load recipes from shipped names, files and `--set key=value`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from understudy.errors import RecipeError
from understudy.kinds.tasks import get_task
from understudy.recipe.library import read_shipped, shipped_recipes
from understudy.recipe.recipe import Recipe


def load_recipe(name_or_file: str | Path, settings: Sequence[str] | Mapping[str, Any] = ()) -> Recipe:
    """Load a recipe by shipped name or file, with settings applied.

    Args:
        settings: `["training.learning_rate=1e-4"]`, or the same as a mapping of dotted keys.

    >>> load_recipe("finetune-mrpc", {"training.seed": 7}).training["seed"]
    7
    """
    text, origin = _read(name_or_file)
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise RecipeError(f"{origin} is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise RecipeError(f"{origin} must be a mapping of keys to values, got {type(values).__name__}.")
    return Recipe.from_mapping(apply_settings(values, settings), origin=origin)


def build_recipe(
    prefix: str,
    given: Mapping[str, Any],
    *,
    task: str | None,
    recipe: str | Path | None,
    settings: Sequence[str] | Mapping[str, Any],
) -> Recipe:
    """Build the recipe from a command's arguments.

    Args:
        prefix: if no recipe is named, the shipped recipe `PREFIX-TASK` is used, otherwise `PREFIX-KIND`.
        given: dotted keys set by the command's options; None removes a key.
        settings: `--set`, which overrides everything.
    """
    row = get_task(task) if task is not None else None
    if recipe is None:
        if row is None:
            raise RecipeError(no_task(given.get("data.source")))
        recipe = f"{prefix}-{row.name}"
        if recipe not in shipped_recipes():
            recipe = f"{prefix}-{row.rows}"
    if row is not None and (found := load_recipe(recipe).task) != row.name:
        if found != row.rows.name:  # a kind's recipe serves all of its tasks
            raise RecipeError(
                f"--task {row.name} and the recipe {recipe}, which is for {found}, exclude each other. Leave "
                f"one out, or say --set task={row.name} if that is what you mean."
            )
        given = {"task": row.name, **given}
    # Applied together: one may be valid only with the other.
    return load_recipe(recipe, {**given, **parse_settings(settings)})


def file_settings(
    *,
    train: str | None = None,
    dev: str | None = None,
    split: float | None = None,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    unlabelled: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the settings for a user's own files and their columns.

    >>> file_settings(train="a.csv", split=0.1, text="review")
    {'data.train': 'a.csv', 'data.dev_share': 0.1, 'data.columns.text': 'review'}
    """
    given = {
        "data.train": train,
        "data.dev": dev,
        "data.dev_share": split,
        "data.columns.text": text,
        "data.columns.text_pair": text_pair,
        "data.columns.label": label,
        "data.unlabelled": list(unlabelled) if unlabelled else None,
    }
    return {key: value for key, value in given.items() if value is not None}


def no_task(data: str | None) -> str:
    """Return a message about how to name the task, if neither an option nor a recipe does."""
    if data is not None and Path(data).is_file():
        return f"--data must be a folder or a hub name; got the file {data}. For a file of your own: --train."
    return (
        "there is no task to learn. Give --train with a file of your own, or name a task or a recipe, e.g. "
        "--task mrpc (in Python: task=…, recipe=… or data of your own)."
    )


def without_none(options: Mapping[str, str | Path | None]) -> dict[str, Any]:
    """Return a command's options without those that were not given."""
    return {key: str(value) for key, value in options.items() if value is not None}


def _read(name_or_file: str | Path) -> tuple[str, str]:
    path = Path(name_or_file).expanduser()
    if str(name_or_file) not in shipped_recipes() and (path.suffix in (".yaml", ".yml") or path.is_file()):
        try:
            return path.read_text("utf-8"), str(path)
        except OSError as error:
            raise RecipeError(f"recipe {path} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise RecipeError(f"recipe {path} must be UTF-8 text.") from None
    return read_shipped(str(name_or_file)), str(name_or_file)


def apply_settings(values: Mapping[str, Any], settings: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Apply `key=value` settings to a recipe's values; a dot goes one level down, null removes a key."""
    result: dict[str, Any] = dict(values)
    for key, value in parse_settings(settings).items():
        *parents, last = key.split(".")
        level = result
        for parent in parents:
            if value is None and not level.get(parent):
                break  # there is nothing to remove
            inner = level.get(parent) or {}
            if not isinstance(inner, dict):
                raise RecipeError(f"--set {key}: {parent} is not a block of keys but {inner!r}.")
            level[parent] = dict(inner)
            level = level[parent]
        else:
            if value is None:
                level.pop(last, None)
            else:
                level[last] = value
    return result


def parse_settings(settings: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Parse `["training.seed=7"]` to `{"training.seed": 7}`; a mapping is returned as it is."""
    return dict(settings if isinstance(settings, Mapping) else (_split(setting) for setting in settings))


def _split(setting: str) -> tuple[str, Any]:
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise RecipeError(f"--set must be key=value, got {setting!r}, e.g. --set seed=7.")
    try:
        return key.strip(), yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise RecipeError(f"--set {key}: the value is not YAML: {error}") from None
