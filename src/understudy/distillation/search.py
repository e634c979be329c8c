"""A grid search that can be resumed."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.files import write_atomically

SCORES = "search.json"


@dataclass(frozen=True)
class Trial:
    """One combination of values and its score."""

    number: int
    values: Mapping[str, Any]
    score: float


def search_grid(
    space: Mapping[str, Sequence[Any]],
    folder: Path,
    run: Callable[[int, Mapping[str, Any]], float],
) -> list[Trial]:
    """Run every combination once, in the order of the grid, and return the trials with the best first.

    Ties go to the first in the grid. Scores are kept in `folder/search.json`; a trial that was running when
    the process died keeps its number and is run again, so it can resume from its own checkpoint.

    Args:
        run: maps a number and values to a score; higher is better. NaN counts as the worst score.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / SCORES
    scores: dict[str, float | None] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    grid = [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]
    for number, values in enumerate(grid):
        if str(number) not in scores:
            score = run(number, values)
            scores[str(number)] = None if math.isnan(score) else score
            write_atomically(file, json.dumps(scores, indent=2) + "\n")
    trials = []
    for number, values in enumerate(grid):
        known = scores[str(number)]
        trials.append(Trial(number, values, -math.inf if known is None else known))
    return sorted(trials, key=lambda trial: (-trial.score, trial.number))
