"""Estimate the cost of a recipe: steps, tokens, FLOP, disk, memory and hours.

The hours on this machine are measured by running the stage on a sample for about half a minute. The hours on
other hardware are computed from its peak rate and an assumed utilisation, which is shown.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from understudy.data.load import announce
from understudy.distillation.agreement import resolve_distillation
from understudy.distillation.rows import prepare
from understudy.errors import RecipeError
from understudy.planning.budget import with_target
from understudy.planning.cost import Cost
from understudy.planning.steps import (
    cost_of_distillation,
    cost_of_finetuning,
    cost_of_general,
    save_untrained,
)
from understudy.planning.text import cost_of_augmentation, cost_of_corpus
from understudy.recipe.inputs import check_planned
from understudy.recipe.parts import distill_part, teacher_part
from understudy.recipe.recipe import Recipe
from understudy.recipe.resolve import resolve_paths
from understudy.timing.machine import peak_memory
from understudy.training.cpu import tune_cpu
from understudy.workspace.hashes import versions

# Dense bf16 and fp32 peak rates from the vendors' datasheets, and the share of them that training small
# encoders is assumed to reach. Laptop: 8 cores × 3 GHz × 32 fp32 operations per cycle (two AVX2 units).
HARDWARE: Mapping[str, tuple[float, float, float]] = {
    "H100": (989e12, 67e12, 0.3),
    "A100": (312e12, 19.5e12, 0.4),
    "laptop": (0.77e12, 0.77e12, 0.3),
}


def plan_from_recipe(recipe: Recipe, *, seconds: float = 30.0) -> dict[str, Any]:
    """Estimate the cost of a recipe. See `plan`."""
    if recipe.method is not None and recipe.augment is not None:
        raise RecipeError(
            "plan does not cost a whole run that augments: how many rows it will make is known when they are "
            f"made. Ask for its stages one by one: finetune-{recipe.task}, augment-{recipe.task} and "
            f"tinybert-{recipe.task}."
        )
    if recipe.run == "mine":
        raise RecipeError("plan does not cost mine; it costs finetune, corpus, general, augment and distill.")
    plain = recipe.method is None or recipe.finetune is not None  # an encoder cannot label held-out rows
    recipe = with_target(resolve_paths(recipe) if plain else resolve_distillation(recipe))
    tune_cpu()
    with tempfile.TemporaryDirectory(prefix="understudy-plan-") as folder:
        cost = _measure(recipe, Path(folder), seconds)
    total = {name: sum(getattr(part, name) for part in cost.parts) for name in ("steps", "tokens", "flop")}
    here = sum(part.seconds for part in cost.parts) / 3600
    assumed: dict[str, dict[str, Any]] = {
        name: {
            "precision": "bf16" if cost.is_half else "fp32",
            "flop_per_second": half if cost.is_half else full,
        }
        | {"share": share}
        for name, (half, full, share) in HARDWARE.items()
    }
    return {
        "stage": "plan",
        "parts": [dataclasses.asdict(part) for part in cost.parts],
        **total,
        "disk": cost.disk,
        "memory": {"weights": cost.weights, "measured": float(peak_memory())},
        "hours": {"this machine": here}
        | {
            name: total["flop"] / (one["flop_per_second"] * one["share"]) / 3600
            for name, one in assumed.items()
        },
        "assumed": assumed,
        "versions": versions(),
    }


def _measure(recipe: Recipe, folder: Path, seconds: float) -> Cost:
    check_planned(recipe)
    if recipe.augment is not None:
        return cost_of_augmentation(recipe, folder, seconds)
    if recipe.run == "corpus":
        return cost_of_corpus(recipe, folder, seconds)
    if recipe.run == "general":
        return cost_of_general(recipe, folder, seconds)
    if recipe.run is None:
        return cost_of_finetuning(recipe, folder, seconds)
    if recipe.finetune is not None:
        return _measure_both(recipe, folder, seconds)
    return cost_of_distillation(recipe, folder, seconds)


def _measure_both(recipe: Recipe, folder: Path, seconds: float) -> Cost:
    """Estimate a whole run from an encoder: its fine-tuning, then the distillation of such a teacher."""
    first = teacher_part(recipe)
    teacher = cost_of_finetuning(first, folder / "teacher", seconds / 2)
    with _rows_announced():
        save_untrained(first, folder / "stand-in")
        # The stand-in has no folds, and which teacher predicts a row does not change the cost.
        second = distill_part(recipe, str(folder / "stand-in"), folder).model_copy(update={"unseen": False})
        student = cost_of_distillation(second, folder / "student", seconds / 2)
    return Cost(
        [*teacher.parts, *student.parts],
        # The teacher's checkpoints are gone before the student's are written.
        {
            "at most": max(teacher.disk["at most"], teacher.disk["when done"] + student.disk["at most"]),
            "when done": teacher.disk["when done"] + student.disk["when done"],
        },
        max(teacher.weights, student.weights),
        student.is_half,
    )


@contextlib.contextmanager
def _rows_announced() -> Iterator[None]:
    """Silence the repeated announcement of the rows."""
    loggers = [logging.getLogger(module) for module in (announce.__module__, prepare.__module__)]
    for one in loggers:
        one.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for one in loggers:
            one.setLevel(logging.NOTSET)
