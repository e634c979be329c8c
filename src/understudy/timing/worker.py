"""The process that times a model: pickled requests on standard input, results on standard output."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import time
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError
from understudy.timing.machine import peak_memory
from understudy.timing.measure import Candidate, Run, Turn


def work() -> None:
    """Open the model at the first request, and answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries may print to standard output
    run: Run | None = None
    with contextlib.suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        candidate, threads = pickle.load(sys.stdin.buffer)
        while True:
            question = pickle.load(sys.stdin.buffer)
            answer: Any
            try:
                run = run or candidate.opener(threads)
                answer = peak_memory() if question == "memory" else time_passes(run, candidate, *question)
            except Exception as error:  # raised by the parent
                answer = UnderstudyError(f"{candidate.name}: {error}")
            pickle.dump(answer, answers)
            answers.flush()
    os._exit(0)  # the parent may be gone: nothing must be written any more, not even at exit


def time_passes(run: Run, candidate: Candidate, batch: int, length: int, count: int) -> Turn:
    """Return the seconds of each of `count` passes, and the CPU seconds of all of them."""
    arrays = {name: np.zeros((batch, length), np.int64) for name in candidate.inputs}
    arrays["input_ids"] = np.random.default_rng(0).integers(0, candidate.num_ids, (batch, length))
    arrays["attention_mask"] = np.ones((batch, length), np.int64)
    seconds = []
    cpu = time.process_time()
    for _ in range(count):
        started = time.perf_counter()
        run(arrays)
        seconds.append(time.perf_counter() - started)
    return Turn(seconds, time.process_time() - cpu)


if __name__ == "__main__":
    work()
