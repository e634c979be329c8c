"""Progress of long operations: a bar, or an occasional line if there is no terminal."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm.auto import tqdm

logger = logging.getLogger(__name__)
SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def progress(
    name: str, total: int, unit: str = "", *, leave: bool = False, hidden: bool = False
) -> Iterator[Callable[[int], None]]:
    """Show the progress of the enclosed work; yields a function to call with the number of new items done.

    Args:
        leave: whether the bar stays when everything is done.
        hidden: show nothing, e.g. in the other processes of a distributed run.

    Examples:
        >>> with progress("Scoring", 2, hidden=True) as advance:
        ...     for _ in range(2):
        ...         advance(1)
    """
    done, last = 0, time.monotonic()
    bar = tqdm(total=total, desc=name, unit=f" {unit}" if unit else "it", leave=leave, disable=hidden or None)

    def advance(count: int) -> None:
        nonlocal done, last
        done += count
        bar.update(count)
        if bar.disable and not hidden and time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            logger.info("%s: %s of %s %s", name, f"{done:,}", f"{total:,}", unit)

    with bar:
        yield advance
