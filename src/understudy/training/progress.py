"""Training progress: a bar with figures, or an occasional line if there is no terminal."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from transformers import (
    ProgressCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from understudy.progress import SECONDS_BETWEEN_LINES

logger = logging.getLogger(__name__)


def stage_name(training_dir: Path, student: str = "") -> str:
    """Return the name of the stage that is trained in a folder, after the student's name if it has one.

    >>> stage_name(Path("students/mrpc/intermediate/training"))
    'intermediate'
    >>> stage_name(Path("students/mrpc/patient/trials/2/training"))
    'patient, trial 3'
    >>> stage_name(Path("students/4l-312d/joint/training"), "4l-312d")
    '4l-312d, joint'
    """
    *_, stage, folder, name = ("", "", *training_dir.parent.parts)
    if folder == "trials" and name.isdigit():
        name = f"{stage}, trial {int(name) + 1}"
    return f"{student}, {name}" if student else name


def shown_figures(logs: Mapping[str, Any]) -> dict[str, str]:
    """Select the figures of a log to show: loss, learning rate and dev scores.

    >>> shown_figures({"loss": 0.51234, "epoch": 1.0, "eval_f1": 0.9, "eval_runtime": 3.0})
    {'loss': '0.5123', 'dev f1': '0.9'}
    """
    return {
        name.replace("eval_", "dev ").replace("learning_rate", "lr"): f"{value:.4g}"
        for name, value in logs.items()
        if name in ("loss", "learning_rate")
        or (
            name.startswith("eval_")
            and not name.startswith("eval_loss_")  # there are too many terms to fit on a line
            and not name.endswith(("runtime", "per_second"))
        )
    }


@dataclass
class EndEstimate:
    """An estimate of when a stage ends, from the steps taken since it was started or resumed."""

    step: int = 0
    started: float = field(default_factory=time.time)

    def start(self, step: int) -> None:
        """Start at the first step, or at that of a checkpoint."""
        self.step, self.started = step, time.time()

    def at(self, state: TrainerState) -> str:
        """Return the time of day, with the date if it is not today."""
        made, left = state.global_step - self.step, state.max_steps - state.global_step
        end = datetime.fromtimestamp(time.time() + (time.time() - self.started) * left / max(1, made))
        return f"{end:%H:%M}" if end.date() == datetime.now().date() else f"{end:%d %b %H:%M}"


class ProgressLines(TrainerCallback):
    """A callback that logs step and figures at most twice a minute, if the output is not a terminal."""

    def __init__(self) -> None:
        self.student = ""  # its name, if there are several
        self.figures: dict[str, str] = {}
        self.last = time.monotonic()
        self.end = EndEstimate()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.end.start(state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.figures |= shown_figures(logs or {})
        if not state.is_world_process_zero or time.monotonic() - self.last < SECONDS_BETWEEN_LINES:
            return
        self.last = time.monotonic()
        shown = ", ".join(f"{name} {value}" for name, value in self.figures.items())
        name = stage_name(Path(str(args.output_dir)), self.student)
        place = f"{name}: step {state.global_step} of {state.max_steps}, ends about {self.end.at(state)}"
        logger.info("%s: %s", place, shown)


class ProgressBar(ProgressCallback):
    """Trainer's bar with the latest loss, learning rate and dev scores.

    Trainer's own bar writes each log as a dictionary to standard output, which is reserved for `--json`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.student = ""  # its name, if there are several
        self.figures: dict[str, str] = {}
        self.end = EndEstimate()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        super().on_train_begin(args, state, control, **kwargs)  # type: ignore[no-untyped-call]
        self.end.start(state.global_step)
        if self.training_bar is not None:
            self.training_bar.set_description(stage_name(Path(str(args.output_dir)), self.student))

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not state.is_world_process_zero or self.training_bar is None:
            return
        self.figures |= shown_figures(logs or {})
        self.training_bar.set_postfix({"ends": self.end.at(state), **self.figures})
