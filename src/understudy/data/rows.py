"""Check raw rows: valid ones become clean rows, others are counted.

The columns of a clean row depend on its kind; `row` is its position in the source, counted from 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from understudy.data.labels import fold
from understudy.data.raw_rows import Problem, RawRow
from understudy.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from understudy.data.kind import RowKind

# A megabyte of text in one row means a broken file.
MAX_CHARACTERS = 1_000_000

# How many places of each problem are kept for the report, to bound its memory.
PLACES_KEPT = 5


class BadRowError(Exception):
    """An invalid row; `check_row` turns it into a `Problem`."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(name, detail)


@dataclass
class RowReport:
    """Counts of rows that were read, kept and bad, and the places of bad ones."""

    source: str
    num_read: int = 0
    num_kept: int = 0
    problems: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)
    num_used: int | None = None  # set if data.max_rows uses fewer than were kept

    @property
    def num_bad(self) -> int:
        return self.num_read - self.num_kept

    def add(self, where: str, problem: Problem) -> None:
        self.problems[problem.name] = self.problems.get(problem.name, 0) + 1
        places = self.places.setdefault(problem.name, [])
        if len(places) < PLACES_KEPT:
            places.append(f"{where}: {problem.detail}")

    def describe(self) -> str:
        """Describe each problem, with its count and first places, for users."""
        lines = [f"{self.source}: {self.num_bad:,} of {self.num_read:,} rows are bad"]
        for name, count in sorted(self.problems.items(), key=lambda item: -item[1]):
            lines.append(f"  {name} ({count:,})")
            lines.extend(f"    {place}" for place in self.places[name])
            if count > len(self.places[name]):
                lines.append(f"    … and {count - len(self.places[name]):,} more")
        return "\n".join(lines)


def check_text(value: Any, name: str) -> str:
    """Return a text of a row, or raise if it cannot be used."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise BadRowError("null text", f"{name} is null")
    if not isinstance(value, str):
        raise BadRowError("text is not a string", f"{name} must be text, got {type(value).__name__}")
    if not value.strip():
        raise BadRowError("empty text", f"{name} is empty")
    if len(value) > MAX_CHARACTERS:
        raise BadRowError(
            "text too long", f"{name} has {len(value):,} characters, at most {MAX_CHARACTERS:,}"
        )
    if "\x00" in value:
        raise BadRowError("NUL byte", f"{name} has a NUL byte at character {value.index(chr(0))}")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            # surrogateescape puts undecodable bytes at U+DC80–U+DCFF
            if 0xDC80 <= ord(value[error.start]) <= 0xDCFF:
                byte = ord(value[error.start]) - 0xDC00
                raise BadRowError(
                    "invalid byte",
                    f"{name} has a byte, 0x{byte:02X}, that is no character of the file's encoding, at "
                    f"character {error.start}",
                ) from None
            raise BadRowError(
                "lone surrogate", f"{name} has half a character pair at character {error.start}"
            ) from None
    return value


def is_clean(name: str) -> bool:
    """Return whether a label's name is valid in a model's config."""
    try:
        check_text(name, "label")
    except BadRowError:
        return False
    return True


def label_id(value: Any, ids: Mapping[str, int]) -> int:
    """Return the id of a label as written in a file."""
    name = label_name(value)
    if not name:
        raise BadRowError("null label", "label is null")
    found = ids.get(name, ids.get(fold(name)))
    if found is None:
        names = list(dict.fromkeys(name for name in ids if not name.isdigit())) or list(ids)
        shown = ", ".join(names[:10]) + (" …" if len(names) > 10 else "")
        hint = did_you_mean(name, names)
        got = f"got {name!r}.{hint}" if hint else f"got {name!r}"
        raise BadRowError("unknown label", f"label must be one of {shown}; {got}")
    return found


def label_name(value: Any) -> str:
    """Return a label as text, empty for null. 1.0 becomes 1: pandas writes integers so if cells are empty."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def label_ids(labels: Sequence[str], numbering: Sequence[str] | None = None) -> dict[str, int]:
    """Map every spelling that a file may use for a label to its id in `labels`.

    A label may differ in case and separators if that is unambiguous, and may be a number if names are words.
    The number is an index into `numbering`, the published order of the task: another order of `labels`
    changes ids, but never the meaning of a number in a file.
    """
    ids = {name: index for index, name in enumerate(labels)}
    folded: dict[str, list[int]] = {}
    for name, index in ids.items():
        folded.setdefault(fold(name), []).append(index)
    spellings = {name: found[0] for name, found in folded.items() if len(found) == 1}
    if not any(name.lstrip("-").isdigit() for name in labels):
        spellings |= {str(number): ids[name] for number, name in enumerate(numbering or labels)}
    return spellings | ids


def check_row(
    kind: RowKind,
    raw: RawRow,
    columns: Mapping[str, str | int],
    ids: Mapping[str, int] | None,
    *,
    labelled: bool = True,
) -> dict[str, Any] | Problem:
    """Return a clean row, or the problem with it.

    Args:
        columns: the source's column for each of our fields.
        ids: maps each spelling of a label to its id; None for kinds without named labels.
        labelled: whether the row has a label; otherwise it gets the kind's placeholder.
    """
    if raw.problem:
        return raw.problem
    values = {}
    for name, column in columns.items():
        if column not in raw.values:
            return Problem("missing column", f"has no {column!r}, only {sorted(map(str, raw.values))}")
        values[name] = raw.values[column]
    if not labelled:
        values[kind.label_field] = kind.placeholder(values, ids)
    try:
        return kind.check(values, ids)
    except BadRowError as bad:
        return bad.problem


def refuse_if_unusable(reports: Sequence[RowReport], *, allow_bad: bool = False) -> None:
    """Raise with all reports and a remedy, if any source has bad rows or none at all.

    Args:
        allow_bad: accept bad rows, if good ones are left.
    """
    for report in reports:
        if report.num_read == 0:
            raise DataError(f"{report.source}: there are no rows. Check that this is the right file.")
    bad = [one.describe() for one in reports if one.num_bad and not (allow_bad and one.num_kept)]
    if bad:
        files = "files" if len(bad) > 1 else "file"
        remedy = f"Fix the {files}, or skip these rows with --set data.bad_rows=drop."
        if any(one.num_kept == 0 for one in reports):
            remedy = (
                "No usable rows are left. Check the columns, the labels, and whether --task is the right one."
            )
        raise DataError("\n".join([*bad, remedy]))
