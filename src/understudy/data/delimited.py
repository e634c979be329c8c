"""CSV and TSV files as raw rows, for training and, without pyarrow and torch, for predictions."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from understudy.data.raw_rows import Column, Problem, RawRow
from understudy.data.text_files import table_delimiter, text_lines
from understudy.errors import DataError

TABLE_SUFFIXES = (".csv", ".tsv")


def read_table(path: Path, encoding: str, *, header: bool) -> Iterator[RawRow]:
    """Read CSV (quoted as in RFC 4180) or TSV (plain tabs, with quotes as text, as in GLUE).

    Values are keyed by the names of the header or, without one, by position from 0.
    """
    names: list[Column] | None = None
    for number, record in _records(path, encoding):
        where = f"line {number}"
        if isinstance(record, Problem):
            yield RawRow(where, problem=record)
            continue
        if names is None:
            names = [name.strip() for name in record] if header else list(range(len(record)))
            if len(set(names)) < len(names):
                raise DataError(
                    f"{path}: the columns of the first line must differ; got {record}. Rename one."
                )
            if header:
                continue
        if not record or (record == [""] and is_tsv(path)):
            continue  # a blank line, usually the last; in a .csv, "" is a cell
        if len(record) != len(names):
            columns = f"{len(record)} column{'s' * (len(record) != 1)}"
            detail = f"has {columns}, the first line has {len(names)}"
            yield RawRow(where, problem=Problem("wrong number of columns", detail))
        else:
            yield RawRow(where, dict(zip(names, record, strict=True)))


def read_header(path: Path, encoding: str) -> list[str]:
    """Read the names of the columns; empty for an empty file."""
    for number, record in _records(path, encoding):
        if isinstance(record, Problem):
            raise DataError(f"{path}, line {number}: {record.detail}.")
        return [name.strip() for name in record]
    return []


def is_tsv(path: Path) -> bool:
    """Return whether columns are separated by plain tabs, with quotes as text."""
    return path.suffix.lower() == ".tsv"


def _records(path: Path, encoding: str) -> Iterator[tuple[int, list[str] | Problem]]:
    if not is_tsv(path):
        yield from _csv_records(path, encoding)
        return
    for number, line in enumerate(text_lines(path, encoding), start=1):
        yield number, line.rstrip("\r\n").split("\t")


def _csv_records(path: Path, encoding: str) -> Iterator[tuple[int, list[str] | Problem]]:
    # The default limit of 131,072 characters would abort the file instead of reporting the row.
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(text_lines(path, encoding), delimiter=table_delimiter(path, encoding), strict=True)
    while True:
        start = reader.line_num + 1
        try:
            yield start, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "unexpected end" in str(error):  # an unclosed quote has swallowed the rest
                raise DataError(
                    f"{path}: broken quoting: the quote opened in line {start} is never closed. Close it, or "
                    "double the quotes inside a quoted text."
                ) from None
            yield start, Problem("broken quoting", f"cannot be read as CSV: {error}")
