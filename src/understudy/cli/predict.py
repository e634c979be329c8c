"""`understudy predict`."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.errors import DataError


def predict_command(
    artifact: Annotated[Path, typer.Argument(help="Folder that export wrote.", show_default=False)],
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

    Each line of a pipe or a text file is a text; if there are several fields, they are separated by tabs, or
    given as a JSON object.
    """
    from understudy.predictor import Predictor

    predictor = Predictor(artifact, model=model, threads=threads)
    fields = predictor.artifact.fields
    if texts and file is not None:
        raise DataError("give texts or --file, not both.")
    rows: Iterable[Any]
    if texts:
        if len(texts) == 1 and Path(texts[0]).is_file():
            typer.echo(f"{texts[0]} is taken as a text. To label what is in it: --file {texts[0]}", err=True)
        rows = list(_grouped(texts, fields))
    elif file is not None:
        rows = _read(file, fields, _named(columns or [], fields))
    elif sys.stdin.isatty():
        raise DataError("give texts, --file, or a pipe: understudy predict ARTIFACT 'a text'")
    else:
        rows = (_line(line, fields) for line in _decode(sys.stdin.buffer))
    rows, asked = itertools.tee(rows)
    for row, answer in zip(asked, predictor.stream(rows, batch_size=batch_size), strict=True):
        if as_json or with_texts:
            told = predictor.kind.parse(row, fields) if with_texts else {}
            print(json.dumps(told | answer, ensure_ascii=False))
        else:
            print(predictor.kind.show(answer))


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


def _named(columns: list[str], fields: Any) -> dict[str, str]:
    """Map each field to its column."""
    given = dict(column.partition("=")[::2] for column in columns)
    wrong = sorted(set(given) - set(fields))
    if wrong:
        raise DataError(f"--column must be FIELD=NAME with a field of {', '.join(fields)}; got {wrong[0]!r}.")
    return {name: given.get(name, name) for name in fields}


def _read(file: Path, fields: Any, columns: dict[str, str]) -> Iterator[Any]:
    """Yield the rows of a file."""
    try:
        if file.suffix not in (".csv", ".tsv"):
            with file.open("rb") as lines:
                yield from (_line(line, fields) for line in _decode(lines))
        else:
            with file.open(encoding="utf-8", newline="") as lines:
                table = csv.DictReader(lines, delimiter="\t" if file.suffix == ".tsv" else ",")
                for name, column in columns.items():
                    if column not in (table.fieldnames or ()):
                        raise DataError(
                            f"{file} has no column {column}; it has "
                            f"{', '.join(table.fieldnames or ['none'])}. "
                            f"Say which one it is: --column {name}=…"
                        )
                for row in table:
                    yield {name: row[column] for name, column in columns.items()}
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read: {error}") from None


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
