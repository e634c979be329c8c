"""Task kinds, one folder each: `rows.py` without torch, `learning.py` with it.

Add a kind as a folder here, or from your own code with `register_kind`.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from understudy.errors import RecipeError

if TYPE_CHECKING:
    from understudy.data.kind import Kind, RowKind

_REGISTERED: dict[str, Kind] = {}


def kind_names() -> list[str]:
    """Return the names of all kinds."""
    return [*_folders(), *_REGISTERED]


@cache
def _folders() -> dict[str, str]:
    """Map the name of each kind to its folder."""
    return {one.name.replace("_", "-"): one.name for one in pkgutil.iter_modules(__path__) if one.ispkg}


def register_kind(kind: Kind) -> None:
    """Register a task kind of your own, which recipes can name as their task.

    Args:
        kind: an instance of a subclass of `understudy.data.kind.Kind`.
    """
    if kind.name in _folders():
        raise RecipeError(f"there is a kind {kind.name!r} already. Choose another name.")
    _REGISTERED[kind.name] = kind


def get_kind(name: str) -> Kind:
    """Return a kind by name, with everything needed for training.

    >>> get_kind("classification").required
    ('text', 'label')
    """
    kind: Kind = _REGISTERED.get(name) or _load(name, "learning").KIND
    return kind


def get_rows(name: str) -> RowKind:
    """Return the row part of a kind by name, without torch."""
    kind: RowKind = _REGISTERED.get(name) or _load(name, "rows").ROWS
    return kind


@cache
def _load(name: str, part: str) -> Any:
    if name not in _folders():
        raise RecipeError(f"the kind must be one of {', '.join(kind_names())}; got {name!r}.")
    return import_module(f"understudy.kinds.{_folders()[name]}.{part}")
