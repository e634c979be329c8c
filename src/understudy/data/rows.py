"""Judge raw rows: what is usable becomes a clean row, what is not is counted. Which columns a clean row has
is its kind's to say; `row` is the position among the rows of the source, counted from 0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from understudy.data.labels import fold
from understudy.data.raw_rows import Problem, RawRow
from understudy.errors import DataError

if TYPE_CHECKING:
    from understudy.data.kind import RowKind

# A megabyte of text in one row is a broken file and not an example.
MAX_CHARACTERS = 1_000_000

# How many places of each problem are kept for the report: enough to look at, bounded in memory.
PLACES_KEPT = 5


class BadRowError(Exception):
    """Raised by the checks below and turned into a `Problem` by `check_row`."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem(name, detail)


@dataclass
class RowReport:
    """How many rows were read, kept and bad, and where the bad ones are."""

    source: str
    num_read: int = 0
    num_kept: int = 0
    problems: dict[str, int] = field(default_factory=dict)
    places: dict[str, list[str]] = field(default_factory=dict)
    num_used: int | None = None  # where data.max_rows takes fewer than were kept

    @property
    def num_bad(self) -> int:
        return self.num_read - self.num_kept

    def add(self, where: str, problem: Problem) -> None:
        self.problems[problem.name] = self.problems.get(problem.name, 0) + 1
        places = self.places.setdefault(problem.name, [])
        if len(places) < PLACES_KEPT:
            places.append(f"{where}: {problem.detail}")

    def describe(self) -> str:
        """For people: each problem, how often, and the first places."""
        lines = [f"{self.source}: {self.num_bad:,} of {self.num_read:,} rows are bad"]
        for name, count in sorted(self.problems.items(), key=lambda item: -item[1]):
            lines.append(f"  {name} ({count:,})")
            lines.extend(f"    {place}" for place in self.places[name])
            if count > len(self.places[name]):
                lines.append(f"    … and {count - len(self.places[name]):,} more")
        return "\n".join(lines)


def check_text(value: Any, name: str) -> str:
    """A text of a row, or why it cannot be used."""
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
                raise BadRowError(
                    "invalid UTF-8", f"{name} is not UTF-8 at character {error.start}"
                ) from None
            raise BadRowError(
                "lone surrogate", f"{name} has half a character pair at character {error.start}"
            ) from None
    return value


def is_clean(name: str) -> bool:
    """Whether a label's name could stand in a model's config."""
    try:
        check_text(name, "label")
    except BadRowError:
        return False
    return True


def label_id(value: Any, ids: Mapping[str, int]) -> int:
    """The id of a label as a file writes it."""
    name = label_name(value)
    if not name:
        raise BadRowError("null label", "label is null")
    found = ids.get(name, ids.get(fold(name)))
    if found is None:
        names = list(dict.fromkeys(name for name in ids if not name.isdigit())) or list(ids)
        shown = ", ".join(names[:10]) + (" …" if len(names) > 10 else "")
        raise BadRowError("unknown label", f"label must be one of {shown}; got {name!r}")
    return found


def label_name(value: Any) -> str:
    """A label as text; empty for null. Whole floats are numbers: pandas writes 1.0 beside an empty cell."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def label_ids(labels: Sequence[str], numbering: Sequence[str] | None = None) -> dict[str, int]:
    """Every spelling a file may use for a label, to its id in `labels`.

    A label may be written with other capitals where that is clear, and as a number where names are
    words. The number counts in `numbering`, the order in which the task was published: another order
    of `labels` changes ids, never what a number in a file means.
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
) -> dict[str, Any] | Problem:
    """A clean row, or why there is none.

    Args:
        columns: our field to the source's column.
        ids: spelling of a label to its id; None for kinds whose labels are not named.
    """
    if raw.problem:
        return raw.problem
    values = {}
    for name, column in columns.items():
        if column not in raw.values:
            return Problem("missing column", f"has no {column!r}, only {sorted(map(str, raw.values))}")
        values[name] = raw.values[column]
    try:
        return kind.check(values, ids)
    except BadRowError as bad:
        return bad.problem


def refuse_if_bad(report: RowReport) -> None:
    """Raise with the whole report, and with the way out."""
    if report.num_bad:
        raise DataError(
            f"{report.describe()}\nMend the file, or leave such rows out with --set data.bad_rows=drop."
        )
    if report.num_read == 0:
        raise DataError(f"{report.source}: there are no rows. Check that this is the right file.")
