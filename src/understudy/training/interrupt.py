"""Stop a training at the end of a step, with a checkpoint, when it is interrupted."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Iterator
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _Stop(TrainerCallback):
    """Saves and stops after the step in which an interruption came."""

    def __init__(self) -> None:
        self.is_asked = False

    def on_step_end(self, args: Any, state: Any, control: TrainerControl, **_: Any) -> TrainerControl:
        if self.is_asked:
            control.should_save = control.should_training_stop = True
        return control


@contextlib.contextmanager
def checkpoint_on_interrupt(trainer: Trainer) -> Iterator[None]:
    """Write a checkpoint on the first Ctrl-C or SIGTERM, after the step it came in; the second stops at once.

    Processes of a distributed run would stop at different steps and wait for each other, so there nothing
    changes, nor outside of the main thread, where Python handles no signals.

    Raises:
        KeyboardInterrupt: after the checkpoint.
    """
    if trainer.args.world_size > 1 or threading.current_thread() is not threading.main_thread():
        yield
        return
    stop = _Stop()

    def handle(*_: Any) -> None:
        if stop.is_asked:
            raise KeyboardInterrupt
        stop.is_asked = True
        logger.warning("Interrupted: saving a checkpoint after this step. Interrupt again to stop at once.")

    trainer.add_callback(stop)
    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        trainer.remove_callback(stop)
    if stop.is_asked:
        raise KeyboardInterrupt
