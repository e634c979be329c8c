"""What a recipe will cost: steps, tokens, FLOP, disk, memory and hours.

The hours of this machine come from the real thing, run for about half a minute on a sample: the same stage,
the same batches, the same precision. Those of other hardware are its peak rate times a share that is assumed
and shown.
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
    """Estimate what a recipe will cost, before it runs.

    Args:
        recipe: a shipped name or a file, of any stage; it must say its models and data.
        settings: over the recipe, e.g. `{"teacher": "teachers/mrpc"}`.
        seconds: of measuring, about.

    Example:
        >>> understudy.plan("students/mrpc/recipe.yaml").hours      # doctest: +SKIP
        {'this machine': 0.21, 'H100': …, 'A100': …, 'laptop': …}
    """
    return PlanResult(plan_from_recipe(load_recipe(recipe, settings), seconds=seconds))
