"""One process at a time in an output folder."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from filelock import FileLock, Timeout

from understudy.data.load import cache_folder
from understudy.errors import OutputError
from understudy.recipe.recipe import Recipe

P = ParamSpec("P")
Result = TypeVar("Result")

# Seconds that a lock is waited for whose holder is gone: its child processes may take a moment to end.
_WAIT = 20.0


def one_at_a_time(
    function: Callable[Concatenate[Recipe, Path, P], Result],
) -> Callable[Concatenate[Recipe, Path, P], Result]:
    """Let a function that writes to its second argument, a folder, run in one process at a time."""

    @functools.wraps(function)
    def call(recipe: Recipe, output_dir: Path, /, *arguments: P.args, **options: P.kwargs) -> Result:
        with only_process_in(output_dir):
            return function(recipe, output_dir, *arguments, **options)

    return call


@contextlib.contextmanager
def only_process_in(output_dir: Path) -> Iterator[None]:
    """Refuse a folder that another process of this machine is writing to.

    The operating system gives a lock back when its holder ends, however that happens. Locks are in the cache
    folder, so that output folders have nothing in them that depends on the machine.
    """
    if os.environ.get("RANK", "0") != "0":  # the first of several processes holds it for all
        yield
        return
    folder = cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(str(output_dir.expanduser().resolve()).encode()).hexdigest()[:24]
    lock, holder = FileLock(folder / f"{name}.lock"), folder / f"{name}.json"
    try:
        lock.acquire(timeout=0 if _is_alive(holder) else _WAIT)
    except Timeout:
        raise OutputError(
            f"{output_dir} is in use by {_describe(holder)}. Wait for it, stop it, or use another "
            "--output-dir."
        ) from None
    try:
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        holder.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "started": started}))
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _is_alive(holder: Path) -> bool:
    """Return whether the process that a lock names is running on this machine."""
    try:
        content = json.loads(holder.read_text())
        os.kill(content["pid"], 0)
    except (OSError, ValueError):
        return False
    return bool(content["host"] == socket.gethostname())


def _describe(holder: Path) -> str:
    try:
        content = json.loads(holder.read_text())
    except (OSError, ValueError):
        return "another process"
    return f"process {content['pid']} on {content['host']}, since {content['started']}"
