"""Estimate the cost of a recipe: steps, tokens, FLOP, disk, memory and hours.

The hours on this machine are measured: the same stage with the same batches and precision is run on a sample
for about half a minute. The hours on other hardware are computed from its peak rate and an assumed
utilisation, which is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.planning.plan import plan_from_recipe
from understudy.recipe.load import load_recipe
from understudy.workspace.results import PlanResult


def plan(
    recipe: str | Path,
    *,
    settings: Sequence[str] | Mapping[str, Any] = (),
    seconds: float = 30.0,
) -> PlanResult:
    """Estimate the cost of a recipe before it runs.

    Args:
        recipe: a shipped name or a file, of any stage; it must name its models and data.
        settings: override the recipe, e.g. `{"teacher": "teachers/mrpc"}`.
        seconds: approximate duration of the measurement.

    Examples:
        >>> understudy.plan("students/mrpc/recipe.yaml").hours      # doctest: +SKIP
        {'this machine': 0.21, 'H100': …, 'A100': …, 'laptop': …}
    """
    return PlanResult(plan_from_recipe(load_recipe(recipe, settings), seconds=seconds))
