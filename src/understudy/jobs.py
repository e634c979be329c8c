"""Run a job for many numbers: in this process, in several processes, or on Ray Data.

A job is created once per process by a function of picklable arguments, and then called with numbers. Its
results go to disk; nothing is returned.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Literal, get_args

from understudy.errors import RecipeError
from understudy.hardware import num_cores

Engine = Literal["local", "ray"]
_THREADS = "OMP_NUM_THREADS"
Job = Callable[[int], None]


def check_engine(engine: str) -> None:
    """Refuse an unknown engine."""
    if engine not in get_args(Engine):
        raise RecipeError(f"--engine must be one of {', '.join(get_args(Engine))}; got {engine!r}.")


def run_jobs(
    engine: Engine, workers: int, numbers: Sequence[int], make_job: Callable[..., Job], *arguments: Any
) -> Iterator[int]:
    """Run the job for every number; yield each number when it is done."""
    if not numbers:
        return
    if engine == "ray":
        yield from _on_ray(workers, numbers, make_job, arguments)
    elif workers == 1:
        job = make_job(*arguments)
        for number in numbers:
            job(number)
            yield number
    else:
        # Spawned, since a fork of a process that has run threads may hang.
        context = multiprocessing.get_context("spawn")
        heeds = signal.getsignal(signal.SIGINT) != signal.SIG_IGN  # a shell ignores it for background jobs
        with (
            _shared_cores(workers),
            ProcessPoolExecutor(workers, context, _start_worker, (heeds, make_job, arguments)) as pool,
        ):
            with _without_ctrl_c():  # the processes start here
                done = pool.map(_work, numbers)
            yield from done


@contextlib.contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Ignore Ctrl-C; processes started meanwhile ignore it too, or they would print tracebacks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _shared_cores(workers: int) -> Iterator[None]:
    """Give each process that is started its share of the cores, unless the user has decided otherwise."""
    if _THREADS in os.environ:
        yield
        return
    os.environ[_THREADS] = str(max(1, num_cores() // workers))
    try:
        yield
    finally:
        del os.environ[_THREADS]


_job: Job | None = None
_heeds_ctrl_c = True


def _start_worker(heeds: bool, make_job: Callable[..., Job], arguments: Sequence[Any]) -> None:
    global _job, _heeds_ctrl_c
    _heeds_ctrl_c = heeds
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    _job = make_job(*arguments)


def _leave_with_parent() -> None:
    """Exit with the parent: a worker whose parent was killed would otherwise wait forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(number: int) -> int:
    assert _job is not None
    # Ctrl-C ends a job, which reports it to the parent. Between jobs there is nothing to end.
    if _heeds_ctrl_c:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _job(number)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return number


def _on_ray(
    workers: int, numbers: Sequence[int], make_job: Callable[..., Job], arguments: Sequence[Any]
) -> Iterator[int]:
    _keep_ray_local()
    try:
        import ray
    except ImportError:
        raise RecipeError("--engine ray needs Ray: pip install 'understudy-distill[scale]'.") from None
    items = ray.data.from_items([{"number": number} for number in numbers], override_num_blocks=len(numbers))
    done = items.map_batches(
        _RayWorker,
        fn_constructor_args=(make_job, *arguments),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=workers),
    )
    for row in done.iter_rows():
        yield int(row["number"])


def _keep_ray_local() -> None:
    """Make a Ray that starts here listen on loopback alone. A running cluster is used as it is.

    Anyone who can reach Ray's ports can run code, and on Linux it listens on all addresses. Despite its name,
    this variable also works there. Ray reads it when it is imported.
    """
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108  # where Ray looks
    running = Path(folder) / "ray" / "ray_current_cluster"
    if os.environ.get("RAY_ADDRESS") in (None, "", "local") and not running.exists():
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")


class _RayWorker:
    def __init__(self, make_job: Callable[..., Job], *arguments: Any) -> None:
        self.job = make_job(*arguments)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        for number in batch["number"]:
            self.job(int(number))
        return dict(batch)
