"""Errors that users can fix. Each message says what was expected, what was found, and what to do."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable
from functools import lru_cache


def closest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name most similar to a given one, ignoring case; None if none is similar.

    Args:
        cutoff: the minimum similarity, from 0 to 1; see `difflib.get_close_matches`.
    """
    return _closest(name, tuple(known), cutoff)


@lru_cache(maxsize=1000)  # a file may have the same unknown label in every row
def _closest(name: str, known: tuple[str, ...], cutoff: float) -> str | None:
    folded = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=cutoff)
    return folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint for a message about an unknown name, with a space before it; empty if none is close.

    >>> did_you_mean("Postive", ["negative", "positive"])
    " Did you mean 'positive'?"
    """
    close = closest(name, known)
    return f" Did you mean {close!r}?" if close else ""


class UnderstudyError(Exception):
    """The base of all errors that users can fix; the command line prints them without a traceback."""


class MissingExtraError(UnderstudyError, ImportError):
    """A package from an extra is not installed."""

    @classmethod
    def of(cls, error: ModuleNotFoundError, extra: str = "train") -> MissingExtraError:
        """Build the error from a missing module, with the command that installs it."""
        return cls(
            f"this needs the package {error.name}, which is not installed: "
            f"pip install 'understudy-distill[{extra}]'"
        )


def require(package: str, extra: str = "train") -> None:
    """Refuse a command whose extra is not installed, without importing the package."""
    if importlib.util.find_spec(package) is None:
        missing = ModuleNotFoundError(f"no module named {package!r}", name=package)
        raise MissingExtraError.of(missing, extra)


class DataError(UnderstudyError):
    """A file, a column or a row is not what the task needs."""


class RecipeError(UnderstudyError):
    """A recipe names something that does not exist, or has an invalid value."""


class ModelError(UnderstudyError):
    """A model or tokenizer cannot be loaded, or does not fit the task."""


class OutputError(UnderstudyError):
    """An output folder cannot be used as it is."""


class HubError(UnderstudyError):
    """The hub cannot be used: no token, no network, or it refuses the request."""


class TrainingError(UnderstudyError):
    """Training cannot continue because a loss became NaN or infinite."""


class PreflightError(UnderstudyError):
    """A run would fail later; lists all findings, each with what to do."""
