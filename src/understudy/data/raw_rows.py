"""Rows as a file gives them, before they are judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Column = str | int


@dataclass(frozen=True)
class Problem:
    """Why a row cannot be used: a short name to count by, and the particulars."""

    name: str
    detail: str


@dataclass(frozen=True)
class RawRow:
    """One row as its file gives it. `where` is the line, row or question a person can look up."""

    where: str
    values: dict[Column, Any] = field(default_factory=dict)
    problem: Problem | None = None
