"""Advice for when a disk is full, read-only or broken."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from understudy.errors import OutputError, UnderstudyError
from understudy.files import is_full

_AGAIN = "then run the same command again"
_REMEDIES = {
    errno.ENOSPC: f"Free some space, {_AGAIN}{{continues}}",
    errno.EDQUOT: f"Free some space or get a larger quota, {_AGAIN}{{continues}}",
    errno.EIO: f"Check the disk, or copy the folder to another one, {_AGAIN}{{continues}}",
    errno.EROFS: f"Mount it for writing, {_AGAIN}{{continues}}, or use another {{option}}",
    errno.EACCES: f"Make it readable and writable for you, {_AGAIN}{{continues}}, or use another {{option}}",
    errno.EPERM: f"Make it readable and writable for you, {_AGAIN}{{continues}}, or use another {{option}}",
    errno.ENAMETOOLONG: "Use a shorter {option}",
}
# An error with one of these in its chain was caused by it. Others, such as a file elsewhere that may not be
# read, were perhaps expected.
_CAUSES = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


@contextlib.contextmanager
def explain_disk_errors(
    output: Path, *, option: str = "--output-dir", continues: bool = True
) -> Iterator[None]:
    """Turn a file system error into one of ours that says what to do.

    Args:
        output: the folder or file that is written.
        option: the option that names it.
        continues: whether the command resumes what an earlier call has begun.
    """
    try:
        yield
    except UnderstudyError:
        raise
    except Exception as error:
        # A library may fail again while it handles the disk's error, and raise the second error.
        numbers = [(_number_of(one, output), one) for one in _chain(error)]
        known = ((n, one) for n, one in numbers if n in _REMEDIES)
        causes = ((n, one) for n, one in known if one is error or n in _CAUSES or _is_in(output, one))
        number, first = next(causes, (0, error))
        if number == 0:
            raise
        place = getattr(first, "filename", None) or output
        remedy = _REMEDIES[number].format(option=option, continues=": it continues" if continues else "")
        raise OutputError(f"{place}: {os.strerror(number)}. {remedy}.") from error


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those that it was raised from or while they were handled."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _number_of(error: BaseException, output: Path) -> int:
    """Return the number of an error, also if torch or Rust only state it in words; 0 if it has none."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    text = str(error)
    said = [number for number in _REMEDIES if os.strerror(number) in text]
    # torch.save says only that it could not write as much as it wanted.
    of_torch = any(name in text for name in ("PytorchStreamWriter", "inline_container", "iostream error"))
    if not said and of_torch and is_full(output):
        return errno.ENOSPC
    return said[0] if said else 0


def _is_in(output: Path, error: BaseException) -> bool:
    """Return whether an error concerns a file in the output folder."""
    name = getattr(error, "filename", None)
    return isinstance(name, str) and Path(name).is_relative_to(output)
