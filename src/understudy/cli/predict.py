"""`understudy predict`."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.errors import DataError, OutputError

if TYPE_CHECKING:
    from understudy.data.kind import RowKind


def predict_command(
    artifact: Annotated[
        str,
        typer.Argument(help="Folder that export wrote, or user/name on the hub.", show_default=False),
    ],
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts to predict; for pairs and questions, two per row.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="CSV, TSV or JSON lines; any other file has one text per line."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="FIELD=NAME", help="Column of a field in --file, e.g. text=review."),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option("--encoding", help="Encoding of --file, e.g. cp1251; detected by default."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Write the rows with their predictions: .csv, .tsv or .jsonl."),
    ] = None,
    npy: Annotated[
        Path | None,
        typer.Option("--npy", help="Write the vectors of an embedding model as a NumPy file."),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="fp32, int8 …; the default is int8.")] = None,
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, help="Threads per prediction; the engine's choice by default."),
    ] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1)] = 32,
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="Print one JSON object per line.")
    ] = False,
    with_texts: Annotated[
        bool,
        typer.Option("--with-texts", metavar="", help="Like --json, with the texts, as rows for training."),
    ] = False,
) -> None:
    """Predict labels of texts with an exported student. Starts without torch.

    `understudy predict artifacts/sst2 "a fine film" "a film one would rather forget"`

    `understudy predict artifacts/mrpc "A cat sleeps." "There is a sleeping cat."`

    `cat reviews.txt | understudy predict artifacts/sst2 --json > labels.jsonl`

    `understudy predict artifacts/sst2 --file reviews.csv --output labelled.csv`

    `understudy predict artifacts/search --file texts.txt --npy vectors.npy`

    `understudy predict ada/reviews-4l "a fine film"` downloads what `understudy push` uploaded.

    A table keeps all its columns, and those of the prediction are added. The text is read from the column
    that the student was trained on, or from the one given with `--column text=NAME`.

    Each line of a pipe or a text file is one text; several fields are separated by tabs, or given as a JSON
    object.
    """
    from understudy.data.text_files import encoding_name
    from understudy.predictor import Predictor
    from understudy.predictor.tables import (
        CutTexts,
        EmptyTexts,
        group_texts,
        read_file,
        read_pipe,
        write_predictions,
        write_vectors,
    )
    from understudy.workspace.disk import explain_disk_errors

    predictor = Predictor.from_pretrained(artifact, model=model, threads=threads)
    fields = predictor.artifact.fields
    if npy is not None:
        _check_vectors(npy, predictor.kind, others=output is not None or as_json or with_texts)
    if texts and file is not None:
        raise DataError("give texts or --file, not both.")
    if file is None and (columns or encoding):
        raise DataError(f"--{'column' if columns else 'encoding'} has no effect without --file.")
    if texts:
        if len(texts) == 1 and os.path.isfile(texts[0]):  # noqa: PTH113  # false for a text of any length
            typer.echo(f"{texts[0]} is taken as a text. To label what is in it: --file {texts[0]}", err=True)
        read = group_texts(texts, fields, predictor.kind)
    elif file is not None:
        given = _named(columns or [], fields)
        read = read_file(file, fields, given=given, trained=predictor.artifact.columns, encoding=encoding)
        if read.encoding not in ("utf-8", encoding):
            name = encoding_name(read.encoding)
            typer.echo(
                f"{file.name} is {name}, not UTF-8, and is read as such. If its letters are wrong, use "
                "--encoding.",
                err=True,
            )
    elif sys.stdin.isatty():
        raise DataError("give texts, --file, or a pipe: understudy predict ARTIFACT 'a text'")
    else:
        read = read_pipe(sys.stdin.buffer, fields)
    records, kept = itertools.tee(read.records)
    empty = EmptyTexts(predictor.kind, fields)
    cut = CutTexts(predictor.artifact.max_length)
    answers = predictor.stream(empty.watch(map(read.row, records)), batch_size=batch_size)
    pairs = zip(kept, cut.watch(answers), strict=True)
    if npy is not None:
        with explain_disk_errors(npy, option="--npy", continues=False):
            write_vectors(npy, (answer for _, answer in pairs))
        typer.echo(f"The vectors are in {npy}", err=True)
    elif output is not None:
        if file is not None and output.exists() and output.samefile(file):
            raise OutputError(f"--output {output} is --file itself. Use another name.")
        with explain_disk_errors(output, option="--output", continues=False):
            write_predictions(output, pairs, predictor.kind, fields)
        typer.echo(f"{cut.total:,} rows with their predictions are in {output}", err=True)
    else:
        for record, answer in pairs:
            if as_json or with_texts:
                told = predictor.kind.parse(read.row(record), fields) if with_texts else {}
                print(json.dumps(told | answer, ensure_ascii=False))
            else:
                print(predictor.kind.show(answer))
    if cut.total == 0:
        typer.echo("There are no rows, so nothing was predicted.", err=True)
    for said in (empty.describe(), cut.describe()):
        if said is not None:
            typer.echo(said, err=True)


def _check_vectors(path: Path, kind: RowKind, *, others: bool) -> None:
    """Refuse a file of vectors that cannot be written, before anything is predicted."""
    if not kind.has_vectors:
        raise DataError(f"--npy is for embedding models; this one predicts for {kind}.")
    if others:
        raise DataError("--npy writes vectors alone; leave --output, --json and --with-texts out.")
    if not path.parent.is_dir():
        raise OutputError(f"--npy: there is no folder {path.parent}.")


def _named(columns: Sequence[str], fields: Sequence[str]) -> dict[str, str]:
    """Parse the `--column FIELD=NAME` options into columns by field."""
    given = {}
    for option in columns:
        field, _, name = option.partition("=")
        if field not in fields or not name:
            raise DataError(
                f"--column must be FIELD=NAME, where FIELD is {' or '.join(fields)} and NAME a column of the "
                f"file; got {option!r}. For example: --column {fields[0]}={name or 'NAME'}."
            )
        given[field] = name
    return given
