"""What to do if a disk is full, read-only or broken."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from understudy.errors import OutputError, UnderstudyError

_AGAIN = "then run the same command again: it continues"
_REMEDIES = {
    errno.ENOSPC: f"Free some space, {_AGAIN}",
    errno.EDQUOT: f"Free some space or get a larger quota, {_AGAIN}",
    errno.EIO: f"Check the disk, or copy the folder to another one, {_AGAIN}",
    errno.EROFS: f"Mount it for writing, {_AGAIN}, or use another --output-dir",
    errno.EACCES: f"Make it readable and writable for you, {_AGAIN}, or use another --output-dir",
    errno.EPERM: f"Make it readable and writable for you, {_AGAIN}, or use another --output-dir",
    errno.ENAMETOOLONG: "Use a shorter --output-dir",
}
_LITTLE = 1 << 20  # bytes: less is a full disk


@contextlib.contextmanager
def explain_disk_errors(output_dir: Path) -> Iterator[None]:
    """Turn an error of the file system into one of ours that says what to do."""
    try:
        yield
    except UnderstudyError:
        raise
    except Exception as error:
        # A library may fail again while it handles the error of the disk, and raise that one.
        numbers = [(_number_of(one, output_dir), one) for one in _chain(error)]
        number, first = next(((number, one) for number, one in numbers if number in _REMEDIES), (0, error))
        if number == 0:
            raise
        place = getattr(first, "filename", None) or output_dir
        raise OutputError(f"{place}: {os.strerror(number)}. {_REMEDIES[number]}.") from error


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those that it was raised from or while they were handled."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _number_of(error: BaseException, output_dir: Path) -> int:
    """Return the error's number, also of one of torch or Rust, which says it in words; 0 if it has none."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    text = str(error)
    said = [number for number in _REMEDIES if os.strerror(number) in text]
    # torch.save says only that it could not write as much as it wanted.
    of_torch = any(name in text for name in ("PytorchStreamWriter", "inline_container", "iostream error"))
    if not said and of_torch and _is_full(output_dir):
        return errno.ENOSPC
    return said[0] if said else 0


def _is_full(output_dir: Path) -> bool:
    there = next(path for path in (output_dir, *output_dir.parents) if path.exists())
    return shutil.disk_usage(there).free < _LITTLE
