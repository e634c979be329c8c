"""One process at a time in an output folder."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import logging
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
from understudy.workspace.disk import explain_disk_errors

logger = logging.getLogger(__name__)

P = ParamSpec("P")
Result = TypeVar("Result")

# Seconds to wait for a lock whose holder is gone: its child processes may take a moment to end.
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
def only_process_in(output_dir: Path | None) -> Iterator[None]:
    """Refuse a folder that another process is writing to; None (no folder) is always free.

    The lock is a hidden file next to the folder, removed at the end. Processes on other machines and in other
    containers see it if their file system shares locks (NFS does from version 4 on). If no file can be locked
    there, the lock is in the cache folder, and only processes that share that folder see it. Disk errors
    inside the context are explained to the user.

    The operating system releases a lock when its holder ends, however that happens.
    """
    if output_dir is None:
        yield
        return
    folder = output_dir.expanduser().resolve()
    with explain_disk_errors(folder):
        # In a distributed run, the first process holds it for all.
        if os.environ.get("RANK", "0") == "0":
            with _locked(folder, output_dir):
                yield
        else:
            yield


@contextlib.contextmanager
def _locked(folder: Path, output_dir: Path) -> Iterator[None]:
    """Hold the lock of a folder, which the user called `output_dir`."""
    made = [parent for parent in folder.parents if not parent.exists()]
    try:
        lock = _acquire(folder.parent / f".{folder.name}.lock", output_dir)
    except (OSError, NotImplementedError) as error:  # read-only, a name too long, no locks
        if getattr(error, "errno", None) == errno.EROFS and not os.access(folder, os.W_OK):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder)) from None
        logger.debug("no lock next to %s: %s", folder, error)
        name = hashlib.sha256(str(folder).encode()).hexdigest()[:24]
        lock = _acquire(cache_folder() / "locks" / f"{name}.lock", output_dir)
    path = Path(lock.lock_file)
    try:
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
        _holder_of(path).write_text(json.dumps(holder), "utf-8")
        yield
    finally:
        # Removed while held: a process that has opened the file meanwhile sees that it is gone and retries.
        for file in (_holder_of(path), path):
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
        lock.release()
        for parent in made:
            with contextlib.suppress(OSError):
                parent.rmdir()  # unless something was written


def _acquire(path: Path, output_dir: Path) -> FileLock:
    """Acquire the lock at a path without waiting, or after a short wait if its holder is gone.

    Raises:
        OutputError: if another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock, holder = FileLock(path), _holder_of(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        try:
            lock.acquire(timeout=_WAIT if _is_gone(holder) else 0)
        except Timeout:
            raise OutputError(
                f"{output_dir} is in use by {_describe(holder)}. Wait for it, stop it, or use another "
                "--output-dir."
            ) from None
    return lock


def _holder_of(path: Path) -> Path:
    """Return the file that says who holds a lock; processes that try to get a lock may empty its own file."""
    return path.with_suffix(".holder")


def _is_gone(holder: Path) -> bool:
    """Return whether the process that holds a lock, if it is known, has ended on this machine."""
    try:
        content = json.loads(holder.read_text("utf-8"))
        if content["host"] != socket.gethostname():
            return False
        os.kill(content["pid"], 0)
    except (OSError, ValueError):
        return True
    return False


def _describe(holder: Path) -> str:
    try:
        content = json.loads(holder.read_text("utf-8"))
    except (OSError, ValueError):
        return "another process"
    return f"process {content['pid']} on {content['host']}, since {content['started']}"
