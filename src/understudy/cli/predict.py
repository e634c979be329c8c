"""`understudy predict`."""

from __future__ import annotations

import csv
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.errors import DataError

if TYPE_CHECKING:
    from understudy.data.kind import RowKind


def predict_command(
    artifact: Annotated[
        str,
        typer.Argument(help="Folder that export wrote, or user/name on the hub.", show_default=False),
    ],
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="For pairs and questions two belong together.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="CSV, TSV or JSON lines with the fields; else a text a line."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="FIELD=NAME", help="What a field is called in --file: text=review."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Write the rows with their predictions: .csv, .tsv or .jsonl."),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="fp32, int8 …; the default is int8.")] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Of one pass; the engine's choice by default.")
    ] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1)] = 32,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line.")] = False,
    with_texts: Annotated[
        bool,
        typer.Option("--with-texts", help="The same with the texts in it: rows to learn from."),
    ] = False,
) -> None:
    """Predict labels of texts with an exported student. Starts without torch.

    `understudy predict artifacts/sst2 "a fine film" "a film one would rather forget"`

    `understudy predict artifacts/mrpc "A cat sleeps." "There is a sleeping cat."`

    `cat reviews.txt | understudy predict artifacts/sst2 --json > labels.jsonl`

    `understudy predict artifacts/sst2 --file reviews.csv --output labelled.csv`

    `understudy predict ada/reviews-4l "a fine film"` downloads what `understudy push` has uploaded.

    A table keeps all of its columns and gets those of the prediction. The text is in the column that the
    student was trained on, or in the one that `--column text=NAME` names.

    Each line of a pipe or a text file is a text; if there are several fields, they are separated by tabs, or
    given as a JSON object.
    """
    from understudy.predictor import Predictor

    predictor = Predictor.from_pretrained(artifact, model=model, threads=threads)
    fields = predictor.artifact.fields
    if texts and file is not None:
        raise DataError("give texts or --file, not both.")
    records: Iterable[Any]
    named = dict.fromkeys(fields)
    if texts:
        if len(texts) == 1 and os.path.isfile(texts[0]):  # noqa: PTH113  # false for a text of any length
            typer.echo(f"{texts[0]} is taken as a text. To label what is in it: --file {texts[0]}", err=True)
        records = list(_grouped(texts, fields))
    elif file is not None:
        given = _named(columns or [], fields)
        records, named = _read(file, fields, given, predictor.artifact.columns)
    elif sys.stdin.isatty():
        raise DataError("give texts, --file, or a pipe: understudy predict ARTIFACT 'a text'")
    else:
        records = (_line(line, fields) for line in _decode(sys.stdin.buffer))
    records, kept = itertools.tee(records)
    answers = predictor.stream((_row(record, named) for record in records), batch_size=batch_size)
    if output is not None:
        write_predictions(output, zip(kept, answers, strict=True), predictor.kind, fields)
        return
    for record, answer in zip(kept, answers, strict=True):
        if as_json or with_texts:
            told = predictor.kind.parse(_row(record, named), fields) if with_texts else {}
            print(json.dumps(told | answer, ensure_ascii=False))
        else:
            print(predictor.kind.show(answer))


def _row(record: Any, columns: Mapping[str, str | None]) -> Any:
    """Return the fields of a record; one that was not read from columns is returned as it is."""
    if not any(columns.values()) or not isinstance(record, dict):
        return record
    return {name: record[column] for name, column in columns.items()}


def _decode(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise DataError(f"line {number} is not UTF-8: {error}. Convert it, e.g. with iconv.") from None


def _grouped(texts: list[str], fields: Any) -> Iterator[Any]:
    if "choices" in fields:
        yield tuple(texts)
        return
    size = len(fields)
    if len(texts) % size:
        raise DataError(f"{size} texts belong together ({', '.join(fields)}); got {len(texts)}.")
    for start in range(0, len(texts), size):
        yield texts[start] if size == 1 else tuple(texts[start : start + size])


def _named(columns: list[str], fields: Sequence[str]) -> dict[str, str]:
    """Return the column that the user gives for a field."""
    given = dict(column.partition("=")[::2] for column in columns)
    wrong = sorted(set(given) - set(fields))
    if wrong:
        raise DataError(f"--column must be FIELD=NAME with a field of {', '.join(fields)}; got {wrong[0]!r}.")
    return given


def _read(
    file: Path, fields: Sequence[str], given: Mapping[str, str], trained: Mapping[str, str]
) -> tuple[Iterator[Any], dict[str, str | None]]:
    """Return the records of a file, and the column of each field, if it has columns.

    Args:
        given: columns that the user names.
        trained: columns of the training data, used if the file has them.
    """
    if file.suffix not in (".csv", ".tsv"):
        return _read_lines(file, fields), dict.fromkeys(fields)
    header: list[str] = next(_read_table(file, header=True), [])
    columns: dict[str, str | None] = {}
    for name in fields:
        known = trained.get(name, name)
        column = given.get(name, known if known in header else name)
        if column not in header:
            raise DataError(
                f"{file} has no column {column}; it has {', '.join(header or ['none'])}. Say which one it "
                f"is: --column {name}=…"
            )
        columns[name] = column
    return _read_table(file), columns


def _read_lines(file: Path, fields: Sequence[str]) -> Iterator[Any]:
    try:
        with file.open("rb") as lines:
            yield from (_line(line, fields) for line in _decode(lines))
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error}") from None


def _read_table(file: Path, *, header: bool = False) -> Iterator[Any]:
    """Yield the rows of a table, or its header alone."""
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            table = csv.DictReader(lines, delimiter=_delimiter(file))
            yield from [list(table.fieldnames or ())] if header else table
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read: {error}") from None


def _delimiter(file: Path) -> str:
    return "\t" if file.suffix == ".tsv" else ","


def write_predictions(
    file: Path, pairs: Iterable[tuple[Any, dict[str, Any]]], kind: RowKind, fields: Sequence[str]
) -> None:
    """Write every record with its prediction beside it: a table (.csv, .tsv), or JSON lines.

    A prediction's name that a column of the file already has gets the prefix `predicted_`.
    """
    is_table = file.suffix in (".csv", ".tsv")
    lines = (_beside(record, kind.cells(answer) if is_table else answer, fields) for record, answer in pairs)
    first = next(lines, None)
    with file.open("w", encoding="utf-8", newline="") as opened:
        if first is None:
            return
        every = itertools.chain([first], lines)
        if not is_table:
            opened.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in every)
            return
        names = [name for name in first if name not in ("probabilities", "truncated")]
        table = csv.DictWriter(opened, names, delimiter=_delimiter(file), extrasaction="ignore")
        table.writeheader()
        table.writerows({name: _cell(value) for name, value in line.items()} for line in every)


def _beside(record: Any, answer: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    texts = record if isinstance(record, dict) else dict(zip(fields, _as_tuple(record), strict=False))
    return texts | {f"predicted_{name}" if name in texts else name: value for name, value in answer.items()}


def _as_tuple(record: Any) -> tuple[Any, ...]:
    return record if isinstance(record, tuple) else (record,)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _line(line: str, fields: Any) -> Any:
    line = line.rstrip("\r\n")
    if line.startswith("{"):
        try:
            return json.loads(line)
        except ValueError:
            pass  # a text may begin with a brace
    if len(fields) == 1:
        return line
    return tuple(line.split("\t"))
