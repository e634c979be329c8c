"""Stop training at the end of a step, with a checkpoint, when it is interrupted."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator
from typing import Any

from greenlet import getcurrent
from transformers import Trainer, TrainerCallback, TrainerControl

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_trainings: list[_Stop] = []  # several if students share a teacher
_handlers: dict[signal.Signals, Any] = {}  # the handlers from before the first training


class Stopped(KeyboardInterrupt):
    """Raised when an interrupted training has written its checkpoint."""


class _Stop(TrainerCallback):
    """Saves and stops after the step in which training was interrupted."""

    def __init__(self) -> None:
        # A training that starts while others are stopping stops too.
        self.is_asked: bool = any(other.is_asked for other in _trainings)
        self.owner = getcurrent()

    def on_step_end(self, args: Any, state: Any, control: TrainerControl, **_: Any) -> TrainerControl:
        if self.is_asked:
            control.should_save = control.should_training_stop = True
        return control

    def on_epoch_end(self, args: Any, state: Any, control: TrainerControl, **_: Any) -> TrainerControl:
        # Trainer ends the epoch early and would score the model, which might then be kept as the best one.
        is_over = state.global_step >= state.max_steps or float(state.epoch).is_integer()
        if self.is_asked and not is_over:
            control.should_evaluate = control.should_save = False
        return control


@contextlib.contextmanager
def checkpoint_on_interrupt(trainer: Trainer) -> Iterator[None]:
    """Write a checkpoint after the current step on the first Ctrl-C or SIGTERM; a second one stops at once.

    The processes of a distributed run would stop at different steps and wait for each other, so nothing
    changes there, nor outside of the main thread, where Python handles no signals.

    Raises:
        Stopped: after the checkpoint.
    """
    if trainer.args.world_size > 1 or threading.current_thread() is not threading.main_thread():
        yield
        return
    stop = _Stop()
    if not _trainings:
        _handlers.update({number: signal.signal(number, _handle) for number in _SIGNALS})
    _trainings.append(stop)
    trainer.add_callback(stop)
    try:
        yield
    finally:
        trainer.remove_callback(stop)
        _trainings.remove(stop)
        if not _trainings:
            for number, handler in _handlers.items():
                signal.signal(number, handler)
    if stop.is_asked:
        raise Stopped


def ask_to_stop() -> bool:
    """Ask all trainings to write a checkpoint and stop after the next step; return whether there are any."""
    for stop in _trainings:
        stop.is_asked = True
    return bool(_trainings)


def _handle(*_: Any) -> None:
    was_asked = any(stop.is_asked for stop in _trainings)
    ask_to_stop()
    # Another student may be exporting or scoring while the trainings wait for their turns.
    if was_asked or all(stop.owner is not getcurrent() for stop in _trainings):
        raise KeyboardInterrupt
    logger.warning("Interrupted: saving a checkpoint after this step. Interrupt again to stop at once.")
