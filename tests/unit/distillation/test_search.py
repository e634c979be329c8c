from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from understudy.distillation.search import search_grid

SPACE = {"learning_rate": [1e-5, 2e-5, 3e-5], "per_device_train_batch_size": [16, 32]}


def score(values: Mapping[str, Any]) -> float:
    return {1e-5: 0.5, 2e-5: 0.9, 3e-5: 0.9}[values["learning_rate"]]


def test_every_combination_once_the_best_first(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def run(number: int, values: Mapping[str, Any]) -> float:
        assert number == len(seen)
        seen.append(dict(values))
        return score(values)

    trials = search_grid(SPACE, tmp_path, run)
    assert len(seen) == 6
    assert len({tuple(values.items()) for values in seen}) == 6
    # Equal scores stand in the order of the grid, however they were run.
    assert dict(trials[0].values) == {"learning_rate": 2e-5, "per_device_train_batch_size": 16}
    assert [trial.score for trial in trials] == [0.9, 0.9, 0.9, 0.9, 0.5, 0.5]
    assert search_grid(SPACE, tmp_path, lambda *_: pytest.fail("it ran again")) == trials


@pytest.mark.parametrize("last", [0, 3, 5])
def test_a_search_that_died_goes_on_with_the_trial_it_was_at(last: int, tmp_path: Path) -> None:
    seen: list[tuple[int, dict[str, Any]]] = []

    def die(number: int, values: Mapping[str, Any]) -> float:
        seen.append((number, dict(values)))
        if number == last:
            raise KeyboardInterrupt
        return score(values)

    with pytest.raises(KeyboardInterrupt):
        search_grid(SPACE, tmp_path, die)
    died_at = seen.pop()

    def run(number: int, values: Mapping[str, Any]) -> float:
        seen.append((number, dict(values)))
        return score(values)

    trials = search_grid(SPACE, tmp_path, run)
    assert seen[last] == died_at
    assert sorted(number for number, _ in seen) == list(range(6))
    undisturbed = search_grid(SPACE, tmp_path / "other", lambda _, values: score(values))
    assert [dict(trial.values) for trial in trials] == [dict(trial.values) for trial in undisturbed]


def test_a_score_that_is_no_number_is_the_worst(tmp_path: Path) -> None:
    trials = search_grid(
        {"seed": [1, 2]}, tmp_path, lambda _, values: float("nan") if values["seed"] == 1 else -5.0
    )
    assert [trial.values["seed"] for trial in trials] == [2, 1]
