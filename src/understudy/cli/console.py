"""Console output for users: all of it on standard error, so that standard output has only results."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from understudy.workspace.result import StageResult


@contextlib.contextmanager
def people_on_stderr() -> Iterator[None]:
    """Send what libraries print to standard error, and keep them quiet."""
    import datasets
    import transformers
    from rich.logging import RichHandler

    transformers.logging.set_verbosity(logging.ERROR)
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # loading takes only seconds
    datasets.disable_progress_bars()  # mapping takes only seconds too
    console = Console(stderr=True)
    handler: logging.Handler
    if console.is_terminal:
        handler = RichHandler(console=console, show_time=False, show_path=False, show_level=False)
    else:  # in a file, lines are not wrapped
        handler = logging.StreamHandler(sys.stderr)
    ours = logging.getLogger("understudy")
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False  # some libraries add a handler to the root logger
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        ours.removeHandler(handler)
        ours.propagate = True


@contextlib.contextmanager
def say_how_to_continue(
    kept: str = "from the last checkpoint",
) -> Iterator[None]:
    """Explain after Ctrl-C what is kept, and how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True).print(
            f"\nInterrupted. Run the same command again, without --overwrite: it continues {kept}."
        )
        raise


def print_error(error: Exception) -> None:
    """Print the message of a user error, after its type."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]{type(error).__name__}[/]: {escape(str(error))}")


def print_json(result: StageResult) -> None:
    """Print one JSON object on standard output, from the first process of a distributed run."""
    if not result.content:
        return
    content: dict[str, Any] = dict(result.content)
    if result.output_dir is not None:
        content["output_dir"] = str(result.output_dir)
    print(json.dumps(content, ensure_ascii=False))


def short_path(path: Path | None) -> str:
    """Return a path relative to the current folder if it lies below it."""
    assert path is not None
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
