"""A grid search that goes on where it stopped: Optuna keeps the record."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JOURNAL = "search.log"


@dataclass(frozen=True)
class Trial:
    """One combination of values and what it scored."""

    number: int
    values: Mapping[str, Any]
    score: float


def search_grid(
    space: Mapping[str, Sequence[Any]],
    folder: Path,
    run: Callable[[int, Mapping[str, Any]], float],
) -> list[Trial]:
    """Run every combination once, in the order of the grid; the best trial first.

    Of equal scores the first in the grid is the better. The study lies in `folder` as Optuna's
    journal (`optuna-dashboard` shows it). A trial that was running when the process died keeps its
    number and is run again, so that it can continue from its own checkpoint.

    Args:
        run: number and values to a score, the higher the better. A score that is not a number counts
            as the worst.
    """
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL)))
        study = optuna.create_study(
            study_name="search", storage=storage, direction="maximize", load_if_exists=True
        )
        for values in itertools.product(*space.values()):
            study.enqueue_trial(dict(zip(space, values, strict=True)), skip_if_exists=True)
    interrupted = study.get_trials(states=[TrialState.RUNNING])
    waiting = [optuna.trial.Trial(study, trial._trial_id) for trial in interrupted]
    while waiting or study.get_trials(states=[TrialState.WAITING]):
        trial = waiting.pop(0) if waiting else study.ask()
        values_of = {name: trial.suggest_categorical(name, choices) for name, choices in space.items()}
        score = run(trial.number, values_of)
        study.tell(trial, -math.inf if math.isnan(score) else score)
    trials = [
        Trial(done.number, {name: done.params[name] for name in space}, float(done.value or 0.0))
        for done in study.get_trials(states=[TrialState.COMPLETE])
    ]
    return sorted(trials, key=lambda trial: (-trial.score, trial.number))
