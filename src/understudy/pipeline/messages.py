"""Log messages for functions that are called from a script or a notebook."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator

import datasets
import transformers


@contextlib.contextmanager
def show_messages() -> Iterator[None]:
    """Show understudy's messages, and no others, on standard error, unless logging is already configured."""
    ours = logging.getLogger("understudy")
    if ours.handlers or logging.getLogger().handlers:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    level, theirs = ours.level, transformers.logging.get_verbosity()
    loading, mapping = transformers.logging.is_progress_bar_enabled(), datasets.are_progress_bars_disabled()
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False  # some libraries add a handler to the root logger on the way
    transformers.logging.set_verbosity(logging.ERROR)
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        ours.removeHandler(handler)
        ours.setLevel(level)
        ours.propagate = True
        transformers.logging.set_verbosity(theirs)
        if loading:
            transformers.logging.enable_progress_bar()  # type: ignore[no-untyped-call]
        if not mapping:
            datasets.enable_progress_bars()
