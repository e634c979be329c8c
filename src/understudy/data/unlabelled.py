"""Rows without labels: where they come from, and how they are mixed with labelled ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
from numpy.typing import NDArray

from understudy.data.columns import guess_columns
from understudy.data.delimited import TABLE_SUFFIXES
from understudy.data.kind import RowKind
from understudy.data.raw_rows import RawRow
from understudy.data.readers import CONLL_SUFFIXES, read_file, read_lines
from understudy.data.sources import Source, hash_saved_dataset, is_saved_dataset, not_utf8, text_encoding
from understudy.data.text_files import choose_encoding
from understudy.errors import DataError
from understudy.files import hash_file

_SUFFIXES = (*TABLE_SUFFIXES, ".jsonl", ".ndjson", ".parquet", ".json", ".txt", *CONLL_SUFFIXES)


def unlabelled_source(
    kind: RowKind,
    given: Sequence[str],
    columns: Mapping[str, str | int],
    fields: Sequence[str] | None = None,
    *,
    optional: Sequence[str] = (),
    encoding: str | None = None,
    key: str = "data.unlabelled",
) -> Source:
    """Return all unlabelled rows as one source, in the order of the files.

    Args:
        given: files, folders, patterns, or folders that `Dataset.save_to_disk` wrote.
        columns: the recipe's columns, used for a file that has them.
        fields: the fields that labelled rows have. Defaults to those that every file has.
        optional: fields that are read as well if every file has them.
        encoding: the encoding of text files. Defaults to the one detected for each file.
        key: the setting that named the files, for messages.
    """
    files = unlabelled_files(given, key=key)
    encodings = {file: text_encoding(file, encoding) for file in files}
    named = {
        file: _columns(kind, file, columns, fields or (), key, encoding=encodings[file]) for file in files
    }
    for name in kind.unlabelled_fields:
        if name in columns and not any(columns[name] == own.get(name) for own in named.values()):
            raise DataError(f"{key}: no file has the column {columns[name]!r}, which was named for {name}.")
    if fields is None:
        fields, optional = (), kind.learnt_fields
    fields = [*fields, *(name for name in optional if all(name in own for own in named.values()))]

    def rows() -> Iterator[RawRow]:
        for file, own in named.items():
            for raw in _read(kind, file, columns, encodings[file]):
                values: dict[str | int, Any] = {name: raw.values.get(own[name]) for name in fields}
                yield RawRow(f"{file.name} {raw.where}", values, raw.problem)

    # The rows depend on which column is read as which field as much as on the files.
    read_as = [[file.suffix, {name: own[name] for name in fields}] for file, own in named.items()]

    def make_key() -> str:
        digest = hashlib.sha256(json.dumps([read_as, encoding] if encoding else read_as).encode())
        for file in files:
            content = hash_saved_dataset(file) if file.is_dir() else hash_file(file)
            digest.update(bytes.fromhex(content))
        return digest.hexdigest()

    name = str(files[0]) if len(files) == 1 else f"{len(files)} files without labels"
    read = {field: field for field in fields}
    return Source(name, make_key, rows, read, None, encodings=not_utf8(encodings, encoding))


def unlabelled_files(given: Sequence[str], *, key: str = "data.unlabelled") -> list[Path]:
    """Return the files of folders and patterns, sorted within each."""
    found: list[Path] = []
    for name in given:
        path = Path(name).expanduser()
        if path.is_file() or is_saved_dataset(path):
            found.append(path)
            continue
        matching = fsspec.filesystem("file").glob(str(path)) if not path.is_dir() else sorted(path.rglob("*"))
        files = [file for file in map(Path, matching) if file.is_file() and file.suffix.lower() in _SUFFIXES]
        if not files:
            raise DataError(
                f"{key}: {name} has no files that can be read. Names must end in {', '.join(_SUFFIXES)}."
            )
        found += files
    return found


def _read(
    kind: RowKind, file: Path, columns: Mapping[str, str | int], encoding: str | None
) -> Iterator[RawRow]:
    if file.is_dir():
        import datasets  # imported here because it takes a second

        dataset = datasets.load_from_disk(str(file)).with_format(None)
        return (RawRow(f"row {number}", dict(values)) for number, values in enumerate(dataset))
    header = not any(isinstance(column, int) for column in columns.values())
    if file.suffix.lower() == ".txt" and "text" in kind.inputs:
        return read_lines(file, choose_encoding(file, encoding))
    return read_file(file, header=header, encoding=encoding)


def _columns(
    kind: RowKind,
    file: Path,
    columns: Mapping[str, str | int],
    fields: Sequence[str],
    key: str,
    *,
    encoding: str | None,
) -> dict[str, str | int]:
    """Return the column of each field in a file; a label column is ignored."""
    first = next((row.values for row in _read(kind, file, columns, encoding) if row.problem is None), None)
    if first is None:
        raise DataError(f"{key}: {file} has no rows that can be read.")
    given = {
        name: column for name, column in columns.items() if column in first and name in kind.learnt_fields
    }
    named, _ = guess_columns(kind, given, list(first), str(file), without_label=True)
    missing = [name for name in fields if name not in named]
    if missing:
        raise DataError(
            f"{key}: {file} has no column for {missing[0]}, which the labelled rows have; there "
            f"are {', '.join(map(str, first))}."
        )
    return named


def epoch_places(
    num_labelled: int, num_unlabelled: int, labelled_share: float | None, seed: int
) -> NDArray[np.int64] | None:
    """Return the places that an epoch reads, in labelled rows followed by unlabelled ones.

    An epoch reads every unlabelled row once. Labelled rows are repeated to reach their share; if there are
    more than needed, a sample is drawn, the same in every epoch.

    Args:
        labelled_share: the share of labelled rows in an epoch; None reads every row once.

    Returns:
        None if every row is read once.

    >>> epoch_places(2, 3, 0.5, seed=0).tolist()
    [0, 0, 1, 2, 3, 4]
    """
    if labelled_share is None or not num_labelled or not num_unlabelled:
        return None
    count = max(1, round(num_unlabelled * labelled_share / (1 - labelled_share)))
    order = np.random.default_rng(seed).permutation(num_labelled)
    labelled = np.sort(np.resize(order, count))
    return np.concatenate([labelled, np.arange(num_labelled, num_labelled + num_unlabelled)])
