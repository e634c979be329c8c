"""Time several models side by side: each in its own process, in turns, one at a time.

Separate processes keep the memory and threads of models apart, and load only the engines that are used.
Taking turns lets other activity on the machine affect all models alike.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from understudy.errors import UnderstudyError

Run = Callable[[Mapping[str, np.ndarray[Any, Any]]], object]
# Opens a model with a number of threads, in the process that runs it.
Opener = Callable[[int], Run]

_ROUNDS = 10
_SECONDS_A_TURN = 0.1
# Fast models stop earlier, but not before the CPU clock has ticked many times.
_MOST_A_TURN, _LEAST_SECONDS_A_TURN = 20, 0.02
# Threads of an engine spin for a while after a pass, and would occupy the next model's core.
_PAUSE = 0.03


@dataclass(frozen=True)
class Candidate:
    """A model to time.

    Attributes:
        inputs: the names of the model's inputs, without the mask, since there is no padding.
        num_ids: the upper bound of the random token ids.
    """

    name: str
    opener: Opener
    inputs: Sequence[str]
    num_ids: int


@dataclass(frozen=True)
class Turn:
    """A few passes of one model in a row.

    Attributes:
        seconds: the duration of each pass.
        cpu: the CPU seconds of all passes together, over all threads.
    """

    seconds: Sequence[float]
    cpu: float


@dataclass(frozen=True)
class Timing:
    """A model's forward passes of one shape: one turn for each round, in the order of the rounds."""

    name: str
    threads: int
    batch: int
    length: int
    turns: Sequence[Turn]

    @property
    def wall(self) -> list[float]:
        """Seconds of a pass in each round: the median of its turn."""
        return [statistics.median(turn.seconds) for turn in self.turns]

    @property
    def cpu(self) -> list[float]:
        """CPU seconds of a pass in each round: the mean of its turn."""
        return [turn.cpu / len(turn.seconds) for turn in self.turns]

    @property
    def median(self) -> float:
        return statistics.median(self.wall)

    @property
    def p95(self) -> float:
        return float(np.quantile([one for turn in self.turns for one in turn.seconds], 0.95))

    @property
    def passes(self) -> int:
        return sum(len(turn.seconds) for turn in self.turns)


def measure(
    candidates: Sequence[Candidate],
    *,
    batches: Sequence[int],
    lengths: Sequence[int],
    threads: Sequence[int],
    rounds: int = _ROUNDS,
) -> tuple[list[Timing], dict[str, int]]:
    """Time forward passes of every model at every shape; return also the peak memory of each process."""
    shapes = [(batch, length) for length in lengths for batch in batches]
    timings: list[Timing] = []
    memory: dict[str, int] = {}
    total = len(threads) * len(shapes) * rounds * len(candidates)
    with tqdm(total=total, desc="Timing", leave=False, disable=None) as bar:
        for count in threads:
            with _workers(candidates, count) as workers:
                for batch, length in shapes:
                    turns: dict[str, list[Turn]] = {name: [] for name in workers}
                    counts = {name: _count_passes(ask, batch, length) for name, ask in workers.items()}
                    for _ in range(rounds):
                        for name, ask in workers.items():
                            turns[name].append(ask((batch, length, counts[name])))
                            bar.update()
                            time.sleep(_PAUSE)
                    timings += [Timing(name, count, batch, length, made) for name, made in turns.items()]
                for name, ask in workers.items():
                    memory[name] = max(memory.get(name, 0), ask("memory"))
    return timings, memory


def _count_passes(ask: Callable[[Any], Any], batch: int, length: int) -> int:
    """Return how many passes a model makes per turn; the first passes warm it up."""
    ask((batch, length, 2))
    once = ask((batch, length, 1)).seconds[0]
    most = max(_MOST_A_TURN, int(_LEAST_SECONDS_A_TURN / once))
    return max(1, min(most, int(_SECONDS_A_TURN / once)))


@contextlib.contextmanager
def _workers(candidates: Sequence[Candidate], threads: int) -> Iterator[dict[str, Callable[[Any], Any]]]:
    """Start a process for each, not by multiprocessing, which would run a user's script again in each."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "understudy.timing.worker"]
    started: list[subprocess.Popen[bytes]] = []
    asks: dict[str, Callable[[Any], Any]] = {}

    def make_ask(name: str, process: subprocess.Popen[bytes]) -> Callable[[Any], Any]:
        def ask(question: Any) -> Any:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                pickle.dump(question, process.stdin)
                process.stdin.flush()
                answer = pickle.load(process.stdout)
            except (EOFError, BrokenPipeError):
                raise UnderstudyError(f"{name}: its process ended. Is there too little memory?") from None
            if isinstance(answer, Exception):
                raise answer
            return answer

        return ask

    try:
        for candidate in candidates:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
            started.append(process)
            assert process.stdin is not None
            pickle.dump((candidate, threads), process.stdin)
            asks[candidate.name] = make_ask(candidate.name, process)
        yield asks
    finally:
        for process in started:
            process.kill()
            process.communicate()
