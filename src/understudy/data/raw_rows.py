"""Rows as read from a file, before they are checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Column = str | int


@dataclass(frozen=True)
class Problem:
    """The reason why a row cannot be used: a short name for counting, and the details."""

    name: str
    detail: str


@dataclass(frozen=True)
class RawRow:
    """A row as read from its file.

    Attributes:
        where: the line, row or question that a user can look up.
        number: its position in the whole file, if only a part of the file is read.
    """

    where: str
    values: dict[Column, Any] = field(default_factory=dict)
    problem: Problem | None = None
    number: int | None = None
