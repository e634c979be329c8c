"""Training of several students in one process that share each forward pass of their teacher."""

from __future__ import annotations

import random
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from greenlet import getcurrent, greenlet
from torch import Tensor
from transformers import PreTrainedModel

from understudy.capture.representations import Representations
from understudy.data.encode import ENCODER_INPUTS
from understudy.training.interrupt import Stopped, ask_to_stop

if TYPE_CHECKING:
    from understudy.training.trainer import DistillationTrainer

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Answer:
    """The teacher's representations of a batch, for all layers that any of the students compares."""

    teacher: PreTrainedModel
    batch: dict[str, Tensor]
    layers: tuple[int, ...]
    wanted: tuple[bool, ...]
    shown: Representations

    def fits(self, batch: Mapping[str, Tensor], trainer: DistillationTrainer) -> bool:
        return (
            trainer.teacher is self.teacher
            and set(trainer.teacher_layers) <= set(self.layers)
            and self.wanted == _wanted(trainer)
            and self.batch.keys() == batch.keys()
            and all(torch.equal(value, batch[name]) for name, value in self.batch.items())
        )

    def of(self, layers: Sequence[int]) -> Representations:
        """Return the representations of a student's own layers."""
        places = [self.layers.index(layer) for layer in layers]
        return replace(
            self.shown,
            hidden=tuple(self.shown.hidden[place] for place in places),
            query_key=tuple(self.shown.query_key[place] for place in places) if self.shown.query_key else (),
        )


class SharedTeacher:
    """Runs several distillations in turns, so that one forward pass of their teacher serves all of them.

    Each distillation runs as it would alone, in its own greenlet and with its own random states. Before a
    step that needs the teacher, it waits for those that are further behind. They read the same batches, so
    only the teacher's representations of the last step are kept. If a batch is not among them, they are
    computed: sharing never changes a result.

    Examples:
        >>> shared = SharedTeacher()
        >>> shared.run_all({"a": lambda: 1, "b": lambda: 2})
        {'a': 1, 'b': 2}
    """

    def __init__(self) -> None:
        self.current = ""
        """The name of the distillation that is running."""
        self._hub: Any = None
        self._trainers: dict[str, weakref.ref[DistillationTrainer]] = {}
        self._num_trained: dict[str, int] = {}
        self._answers: deque[_Answer] = deque()

    def run_all(self, runs: Mapping[str, Callable[[], Result]]) -> dict[str, Result]:
        """Run distillations that use this object, by name; an error in one ends all of them.

        Raises:
            KeyboardInterrupt: after an interruption, once each has written a checkpoint.
        """
        self._hub = getcurrent()
        self._trainers, self._num_trained = {}, dict.fromkeys(runs, 0)
        places = dict.fromkeys(runs, (0, 0))
        states = dict.fromkeys(runs, _random_states())
        coroutines = {name: greenlet(run) for name, run in runs.items()}
        for coroutine in coroutines.values():
            coroutine.gr_context = copy_context()
        results: dict[str, Result] = {}
        interruption: KeyboardInterrupt | None = None
        try:
            while places:
                self.current = min(places, key=lambda name: places[name])
                coroutine = coroutines[self.current]
                if interruption is not None and not coroutine:  # not started yet
                    del places[self.current]
                    continue
                _set_random_states(states[self.current])
                try:
                    found = coroutine.switch()
                except KeyboardInterrupt as error:
                    is_second = interruption is not None and not isinstance(error, Stopped)
                    if is_second or not ask_to_stop():
                        raise
                    interruption = error
                    del places[self.current]
                    continue
                states[self.current] = _random_states()
                if coroutine.dead:
                    results[self.current] = found
                    del places[self.current]
                else:
                    places[self.current] = found
        finally:
            for coroutine in coroutines.values():
                if coroutine:  # started and not finished
                    coroutine.throw()
            self._answers.clear()
        if interruption is not None:
            raise interruption
        return {name: results[name] for name in runs}

    def add(self, trainer: DistillationTrainer) -> None:
        """Add a trainer of the running distillation. One copy of a teacher is kept for all its students."""
        self._trainers[self.current] = weakref.ref(trainer)
        self._num_trained[self.current] += 1
        self._answers.clear()
        together = self._together(trainer)
        best = max(together, key=lambda one: max(one.teacher_layers, default=0))
        for one in together:
            one.teacher = best.teacher

    def wait(self, trainer: DistillationTrainer) -> None:
        """Wait for the distillations that are further behind, before a step of this one."""
        self._hub.switch((self._num_trained[self.current], trainer.state.global_step))

    def read(
        self,
        trainer: DistillationTrainer,
        batch: Mapping[str, Tensor],
        compute: Callable[[Sequence[int]], Representations],
    ) -> Representations:
        """Return the teacher's representations of a batch, computed now or before for another student."""
        inputs = {name: value for name, value in batch.items() if name in ENCODER_INPUTS}
        answer = next((one for one in self._answers if one.fits(inputs, trainer)), None)
        if answer is None:
            assert trainer.teacher is not None
            layers = {layer for one in self._together(trainer) for layer in one.teacher_layers}
            ordered = tuple(sorted(layers))
            answer = _Answer(trainer.teacher, inputs, ordered, _wanted(trainer), compute(ordered))
            while len(self._answers) >= trainer.args.gradient_accumulation_steps:
                self._answers.popleft()
            self._answers.append(answer)
        return answer.of(trainer.teacher_layers)

    def _together(self, trainer: DistillationTrainer) -> list[DistillationTrainer]:
        """Return the trainers of the same teacher that are in the same stage as a trainer, and itself."""
        stage = self._num_trained[self.current]
        others = [own() for name, own in self._trainers.items() if self._num_trained[name] == stage]
        return [one for one in others if one is not None and _same_teacher(one, trainer)]


def _same_teacher(one: DistillationTrainer, other: DistillationTrainer) -> bool:
    """Return whether two trainers have the same teacher, or copies of it; one with another vocabulary is
    saved elsewhere."""
    if one.teacher is None or other.teacher is None:
        return False
    return one.teacher is other.teacher or (
        bool(one.teacher.name_or_path) and one.teacher.name_or_path == other.teacher.name_or_path
    )


def _wanted(trainer: DistillationTrainer) -> tuple[bool, ...]:
    """Return which parts of the representations a trainer's objectives compare."""
    objectives = trainer.objectives
    return bool(objectives.attention), bool(objectives.logits), bool(objectives.first_token_only)


def _random_states() -> tuple[Any, ...]:
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), devices


def _set_random_states(states: tuple[Any, ...]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    if states[3]:
        torch.cuda.set_rng_state_all(states[3])
