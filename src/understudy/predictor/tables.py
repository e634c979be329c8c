"""The rows of files, pipes and shells for a predictor, and tables with its predictions, without torch."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data.delimited import TABLE_SUFFIXES, is_tsv, read_header, read_table
from understudy.data.kind import Prediction, RowKind
from understudy.data.text_files import choose_encoding, encoding_name, is_encoding, text_lines
from understudy.errors import DataError, did_you_mean
from understudy.files import remove_half_written, write_atomically

_PLACES_KEPT = 5


@dataclass(frozen=True)
class Records:
    """Rows to predict, as they were given.

    Attributes:
        records: the rows, each a text, a tuple of texts, or a mapping.
        columns: the column of each field in a table; None for records that have no columns.
        encoding: the encoding of the file they are read from.
    """

    records: Iterable[Any]
    columns: Mapping[str, str] | None = None
    encoding: str = "utf-8"

    def row(self, record: Any) -> Any:
        """Return the part of a record that the predictor reads."""
        if self.columns is None:
            return record
        return {name: record[column] for name, column in self.columns.items()}


def read_file(
    file: Path,
    fields: Sequence[str],
    *,
    given: Mapping[str, str],
    trained: Mapping[str, str],
    encoding: str | None = None,
) -> Records:
    """Read a table (.csv, .tsv), or a file with a text or a JSON object per line.

    Args:
        fields: the fields of a row.
        given: columns that the user names, by field.
        trained: columns of the training data, used if the file has them.
        encoding: the encoding of the file. Defaults to the one detected from its bytes.
    """
    if encoding is not None and not is_encoding(encoding):
        raise DataError(f"--encoding must be a text encoding of Python, e.g. cp1252; got {encoding!r}.")
    try:
        encoding = choose_encoding(file, encoding, setting="--encoding ")
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}.") from None
    if not is_table(file):
        return Records((read_line(line, fields) for line in _lines(file, encoding)), encoding=encoding)
    header = read_header(file, encoding)
    for name in header:
        _check_text(file, "line 1", name, encoding)
    columns = {}
    for name in fields:
        known = trained.get(name, name)
        column = given.get(name, known if known in header else name)
        if column not in header:
            if not header:
                raise DataError(f"{file} is empty: there is no line with the names of the columns.")
            wanted = given.get(name, known)
            hint = did_you_mean(wanted, header)
            raise DataError(
                f"{file} has no column {wanted}; it has {', '.join(header)}.{hint} Say which "
                f"one it is: --column {name}=…"
            )
        columns[name] = column
    return Records(_records(file, encoding), columns, encoding)


def is_table(file: Path) -> bool:
    """Return whether a file is named as a table."""
    return file.suffix.lower() in TABLE_SUFFIXES


def _records(file: Path, encoding: str) -> Iterator[dict[Any, Any]]:
    """Yield the rows of a table, read as for training."""
    for row in read_table(file, encoding, header=True):
        if row.problem is not None:
            raise DataError(f"{file}, {row.where}: {row.problem.detail}. Fix it, and run the command again.")
        for value in row.values.values():
            _check_text(file, row.where, value, encoding)
        yield row.values


def _lines(file: Path, encoding: str) -> Iterator[str]:
    for number, line in enumerate(text_lines(file, encoding), 1):
        _check_text(file, f"line {number}", line, encoding)
        yield line


def _check_text(file: Path, where: str, text: str, encoding: str) -> None:
    """Refuse bytes that are not text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00
        raise DataError(
            f"{file} cannot be read: {where} has a byte, 0x{byte:02X}, that is not "
            f"{encoding_name(encoding)}. Convert it, or name its encoding with --encoding."
        ) from None


def read_pipe(lines: Iterable[bytes], fields: Sequence[str]) -> Records:
    """Read a text or a JSON object per line, in UTF-8, since a pipe's encoding cannot be detected first."""

    def decoded() -> Iterator[Any]:
        for number, line in enumerate(lines, 1):
            try:
                yield read_line(line.decode(), fields)
            except UnicodeDecodeError as error:
                raise DataError(
                    f"line {number} is not UTF-8: {error}. Convert it, e.g. with iconv."
                ) from None

    return Records(decoded())


def read_line(line: str, fields: Sequence[str]) -> Any:
    """Read a line: a JSON object, or the fields with tabs between them."""
    line = line.rstrip("\r\n")
    if line.startswith("{"):
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            pass  # a text may begin with a brace
    if len(fields) == 1:
        return line
    return tuple(line.split("\t"))


def group_texts(texts: Sequence[str], fields: Sequence[str], kind: RowKind) -> Records:
    """Group texts from the shell into rows: as many belong together as there are fields."""
    if kind.takes_all_texts:
        return Records([tuple(texts)])
    size = len(fields)
    if len(texts) % size:
        raise DataError(f"{size} texts belong together ({', '.join(fields)}); got {len(texts)}.")
    if size == 1:
        return Records(list(texts))
    return Records([tuple(texts[start : start + size]) for start in range(0, len(texts), size)])


@dataclass
class EmptyTexts:
    """Counts rows with an empty text while they are read.

    Attributes:
        count: how many there are.
        first: the numbers of the first ones, from 1.
    """

    kind: RowKind
    fields: Sequence[str]
    count: int = 0
    first: list[int] = field(default_factory=list)

    def watch(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows unchanged."""
        for number, row in enumerate(rows, 1):
            if self._is_empty(row):
                self.count += 1
                if len(self.first) < _PLACES_KEPT:
                    self.first.append(number)
            yield row

    def _is_empty(self, given: Any) -> bool:
        allowed = set(self.kind.optional) - set(self.kind.sentence_fields)
        row = self.kind.parse(given, self.fields)
        return any(_is_blank(value) for name, value in row.items() if name not in allowed)

    def describe(self) -> str | None:
        """Return which rows have an empty text, or None if none has."""
        if not self.count:
            return None
        shown = ", ".join(map(str, self.first))
        more = f" (and {self.count - len(self.first):,} more)" if self.count > len(self.first) else ""
        if self.count == 1:
            return f"row {shown}, counted from 1, is empty; it was still predicted."
        return f"rows {shown}{more}, counted from 1, are empty; they were still predicted."


@dataclass
class CutTexts:
    """Counts predictions whose text was longer than the model reads.

    Attributes:
        max_length: the number of tokens that the model reads.
    """

    max_length: int
    count: int = 0
    total: int = 0

    def watch(self, answers: Iterable[Prediction]) -> Iterator[Prediction]:
        """Yield the predictions unchanged."""
        for answer in answers:
            self.total += 1
            self.count += bool(answer.get("truncated"))
            yield answer

    def describe(self) -> str | None:
        """Return how many texts were cut, or None if none was."""
        if not self.count:
            return None
        if self.total == 1:
            return f"The text is longer than {self.max_length} tokens; the rest of it was not read."
        return (
            f"{self.count:,} of {self.total:,} texts are longer than {self.max_length} tokens; only their "
            "beginnings were read."
        )


def _is_blank(value: Any) -> bool:
    return not value.strip() if isinstance(value, str) else not value


def write_predictions(
    file: Path, pairs: Iterable[tuple[Any, Prediction]], kind: RowKind, fields: Sequence[str]
) -> None:
    """Write every record with its prediction beside it: a table (.csv, .tsv), or JSON lines.

    A column of the prediction whose name the file already uses gets the prefix `predicted_`.
    """
    if not is_table(file) and file.suffix.lower() != ".jsonl":
        raise DataError(f"--output must end in .csv, .tsv or .jsonl; got {file.name!r}.")
    answers = ((record, _cells(kind, answer) if is_table(file) else answer) for record, answer in pairs)
    lines = (_beside(record, answer, fields) for record, answer in answers)
    first = next(lines, None)

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as opened:
            if first is None:
                return
            every = itertools.chain([first], lines)
            if is_tsv(file):
                opened.write(_tsv_line(file, first))
                opened.writelines(_tsv_line(file, [line.get(name) for name in first]) for line in every)
            elif is_table(file):
                table = csv.DictWriter(opened, list(first), extrasaction="ignore")
                table.writeheader()
                table.writerows(every)
            else:
                opened.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in every)

    remove_half_written(file)
    write_atomically(file, write)  # half a table would look like a whole one


def write_vectors(file: Path, answers: Iterable[Prediction]) -> None:
    """Write the vectors of an embedding model as a NumPy file."""
    vectors = [np.array(one["vector"], np.float32) for one in answers]

    def write(path: Path) -> None:
        with path.open("wb") as opened:  # NumPy would append .npy to a path without it
            np.save(opened, np.stack(vectors) if vectors else np.zeros((0, 0), np.float32))

    remove_half_written(file)
    write_atomically(file, write)


def _cells(kind: RowKind, answer: Prediction) -> Prediction:
    """Return the part of a prediction that goes into a table."""
    return {
        name: value
        for name, value in kind.cells(answer).items()
        if name not in ("probabilities", "truncated")
    }


def _tsv_line(file: Path, values: Iterable[Any]) -> str:
    """Return a line of plain tabs, in which quotes are text, as for training."""
    cells = ["" if value is None else str(value) for value in values]
    if any(character in cell for cell in cells for character in "\t\r\n"):
        raise DataError(f"{file} cannot hold a text with a tab or a line break. Write a .csv file instead.")
    return "\t".join(cells) + "\n"


def _beside(record: Any, answer: Prediction, fields: Sequence[str]) -> dict[str, Any]:
    texts = record if isinstance(record, dict) else dict(zip(fields, _as_tuple(record), strict=False))
    return texts | {f"predicted_{name}" if name in texts else name: value for name, value in answer.items()}


def _as_tuple(record: Any) -> tuple[Any, ...]:
    return record if isinstance(record, tuple) else (record,)
