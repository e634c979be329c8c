"""Checks that a command makes before it imports torch, which takes nine seconds of CPU time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.recipe.recipe import Recipe


def check_early(
    build: Callable[[], Recipe],
    output_dir: Path | None = None,
    marks: Sequence[str] | None = None,
    *,
    may_be_finished: bool = True,
) -> Recipe:
    """Refuse a recipe whose models, files or columns do not exist, and an output folder in use.

    Args:
        build: returns the recipe; not called if the extra `train` is not installed.
        marks: a folder with any of these files belongs to this command. Defaults to the usual ones.
        may_be_finished: accept a folder that holds a finished run.

    Returns:
        the recipe.
    """
    from understudy.errors import require
    from understudy.recipe.inputs import check_inputs
    from understudy.workspace.folders import check_free, refuse_finished

    require("torch")
    recipe = build()
    check_inputs(recipe)
    # Only the first process checks: a slower one might find files that the first has begun to write.
    if output_dir is not None and os.environ.get("RANK", "0") == "0":
        check_free(output_dir, **({"marks": marks} if marks is not None else {}))
        if not may_be_finished:
            refuse_finished(output_dir)
    return recipe


def check_rows_early(recipe: Recipe, model: str | None, *, keeps_head: bool = True) -> None:
    """Refuse a model that cannot be loaded or has no tokenizer, and bad rows in local files.

    Processes of a distributed run leave the rows to the command.

    Args:
        model: the model that the rows are for.
        keeps_head: whether the model must have the labels of the rows; if not, it gets a new head.
    """
    from understudy.hub import check_reachable, check_tokenizer_files
    from understudy.models.settings import teacher_inside
    from understudy.recipe.inputs import check_values

    model = str(teacher_inside(model)) if model is not None else None
    if model is not None:
        check_reachable(model, "the model")
        check_tokenizer_files(model)
    if os.environ.get("WORLD_SIZE", "1") == "1":
        check_values(recipe, model, keeps_head=keeps_head)


def check_scoring(model: str, *, against: str | None = None, split: str | None = None, **given: Any) -> None:
    """Refuse models or rows to score them on that do not exist.

    Args:
        against: the model to compare with, if any.
        split: the split to score, if it is not a development set.
        given: the arguments of `evaluation_recipe`.
    """
    from understudy.artifacts.artifact import split_form
    from understudy.data.sources import dev_splits
    from understudy.errors import require
    from understudy.hub import check_model_name
    from understudy.recipe.inputs import check_rows, check_values
    from understudy.workspace.recipes import evaluation_recipe, scored_model

    require("torch")
    check_model_name(split_form(model)[0], "the model")
    if against is not None:
        check_model_name(split_form(against)[0], "--against")
    scored = scored_model(model)
    recipe = evaluation_recipe(scored, **given)
    data = recipe.data
    if split is not None:
        check_values(recipe, split_form(str(scored))[0], [split])
    elif data.source or data.dev or data.dev_share:
        check_rows(recipe.task_definition, data, unread=["train"])
        check_values(recipe, split_form(str(scored))[0], dev_splits(recipe.task_definition, data))


def check_timed(models: Sequence[str]) -> None:
    """Refuse models to time that do not exist, and forms that an artifact does not have."""
    from understudy.artifacts.artifact import is_artifact, read_artifact, split_form
    from understudy.errors import require
    from understudy.hub import check_model_name, check_reachable
    from understudy.models.settings import student_inside
    from understudy.workspace.folders import refuse_figures

    require("torch")
    for model in models:
        refuse_figures(model)
        folder, form = split_form(model)
        if is_artifact(folder):
            read_artifact(Path(folder).expanduser()).choose(form)
        else:
            check_model_name(folder, "the model")
            check_reachable(str(student_inside(folder)), "the model")
