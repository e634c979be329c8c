"""Documents of general text: Parquet, JSON lines and plain text, in pieces that can be read independently.

Files are opened through fsspec, so `s3://…` and `hf://…` work if the driver is installed. The pieces depend
only on the files, not on the readers.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.compression import available_compressions
from fsspec.core import url_to_fs

from understudy.data.text_files import encoding_name, find_encoding
from understudy.errors import DataError, did_you_mean
from understudy.files import check_text_source, is_pattern, is_place

logger = logging.getLogger(__name__)

Format = Literal["parquet", "jsonl", "text"]
_FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".txt": "text",
    ".text": "text",
}
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}
# Plain text with longer documents probably has no empty lines between them.
_LONGEST_DOCUMENT = 100_000_000  # bytes
_LOOKED_AT = 1_000_000  # bytes


class MissingColumnError(DataError):
    """A table has no column with the given name."""


@dataclass(frozen=True)
class Piece:
    """Documents of one file that are read together.

    Attributes:
        start, stop: row groups for Parquet, bytes for other files; 0 and None (all) for compressed files.
        num_bytes: bytes of text; for a compressed file, its compressed size.
        encoding: of plain text and JSON lines.
    """

    file: str
    format: Format
    start: int
    stop: int | None
    num_bytes: int
    encoding: str = "utf-8"


def find_files(sources: Sequence[str], *, key: str = "corpus.sources") -> dict[str, int]:
    """Return the files of folders, patterns, files and hub datasets with their sizes, in a fixed order.

    A name that is not a path is a hub dataset, or a folder of one: `wikimedia/wikipedia/20231101.en`.

    Args:
        key: the setting that named them, for messages.
    """
    found: dict[str, int] = {}
    for source in sources:
        check_text_source(source, key)
        path, is_here = Path(source).expanduser(), is_place(source)
        url = source if "://" in source else str(path) if is_here else f"hf://datasets/{source}"
        try:
            files = _list(url)
        except Exception as error:  # drivers raise various errors
            what = "cannot be read" if is_here else "is no path here, and as a hub dataset it cannot be read"
            raise DataError(f"{key}: {source} {what}: {error}") from error
        if not files:
            raise DataError(
                f"{key}: {source} has no file of text. Names must end in "
                f"{', '.join(_FORMATS)}, and then perhaps in {', '.join(_COMPRESSIONS)}."
            )
        found |= files
    return found


def _list(url: str) -> dict[str, int]:
    files, place = url_to_fs(url)
    places = files.glob(place) if is_pattern(place) else [place]
    names = [name for one in places for name in (files.find(one) if files.isdir(one) else [one])]
    known = [name for name in sorted(names) if _suffixes(name)[0] in _FORMATS]
    for name in known:
        compression = _COMPRESSIONS.get(_suffixes(name)[1])
        if compression is not None and compression not in available_compressions():
            raise DataError(f"{name} is compressed with {compression}; install the package that reads it.")
    return {str(files.unstrip_protocol(name)): int(files.size(name)) for name in known}


def _suffixes(name: str) -> tuple[str, str]:
    """Return the suffixes for a file's format and its compression."""
    path = Path(name)
    if path.suffix in _COMPRESSIONS:
        return Path(path.stem).suffix, path.suffix
    return path.suffix, ""


def split_files(files: Mapping[str, int], piece_bytes: int) -> list[Piece]:
    """Split files into pieces of about this many bytes. Compressed files and UTF-16 are one piece each."""
    pieces: list[Piece] = []
    for file, size in files.items():
        suffix, compression = _suffixes(file)
        form = _FORMATS[suffix]
        if form == "parquet":
            pieces += [Piece(file, form, *groups) for groups in _row_groups(file, piece_bytes)]
            continue
        if not size:
            continue
        encoding = _encoding(file)
        if compression or encoding == "utf-16":
            pieces.append(Piece(file, form, 0, None, size, encoding))
        else:
            for start in range(0, size, piece_bytes):
                stop = min(start + piece_bytes, size)
                pieces.append(Piece(file, form, start, stop, stop - start, encoding))
    return pieces


def _encoding(file: str) -> str:
    """Return the encoding of a file, judged by its beginning, since a corpus is too large to read twice."""
    with fsspec.open(file, "rb", compression="infer") as opened:
        try:
            encoding = find_encoding(opened, limit=_LOOKED_AT)
        except ValueError as error:
            raise DataError(f"{file} {error}. Convert it to UTF-8, e.g. with iconv.") from None
    if encoding != "utf-8":
        logger.info("%s is %s, not UTF-8, and is read as such.", file, encoding_name(encoding))
    return encoding


def _row_groups(file: str, piece_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Yield the first group, the group after the last, and the bytes of each piece."""
    with fsspec.open(file, "rb") as opened:
        try:
            metadata = pq.ParquetFile(opened).metadata
        except pa.ArrowInvalid as error:
            raise DataError(f"{file} is no Parquet file: {error}") from None
        start = filled = 0
        for group in range(metadata.num_row_groups):
            filled += metadata.row_group(group).total_byte_size
            if filled >= piece_bytes or group == metadata.num_row_groups - 1:
                yield start, group + 1, filled
                start, filled = group + 1, 0


def read_documents(piece: Piece, column: str) -> Iterator[str | None]:
    """Yield the documents of a piece in order; None for one that is unreadable or empty.

    Args:
        column: the column with the text; not used for plain text, where empty lines separate documents.
    """
    with fsspec.open(piece.file, "rb", compression="infer") as file:
        if piece.format == "parquet":
            texts: Iterable[Any] = _parquet_texts(file, piece, column)
        elif piece.format == "jsonl":
            texts = (_json_text(line, piece, column) for _, line in _lines(file, piece) if line.strip())
        else:
            texts = _paragraphs(file, piece)
        for text in texts:
            yield text if isinstance(text, str) and _is_readable(text) else None


def _is_readable(text: str) -> bool:
    """Return whether a text is not blank and has no lone surrogates, which broken JSON escapes leave."""
    try:
        return bool(text.encode("utf-8").strip())
    except UnicodeEncodeError:
        return False


def _parquet_texts(file: Any, piece: Piece, column: str) -> Iterator[Any]:
    table = pq.ParquetFile(file)
    if column not in table.schema_arrow.names:
        raise MissingColumnError(
            f"{piece.file} has no column {column!r}; it has {', '.join(table.schema_arrow.names)}."
            + did_you_mean(column, table.schema_arrow.names)
        )
    groups = range(piece.start, piece.stop or 0)
    for batch in table.iter_batches(batch_size=256, row_groups=groups, columns=[column]):
        yield from batch.column(0).to_pylist()


def _json_text(line: bytes, piece: Piece, column: str) -> Any:
    try:
        return json.loads(_decode([line], piece) or "")[column]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _lines(file: Any, piece: Piece) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that begin in a piece, with their offsets; UTF-16 as UTF-8."""
    if piece.encoding == "utf-16":
        lines = io.TextIOWrapper(file, piece.encoding, errors="replace", newline="\n")
        try:
            for place, line in enumerate(_bounded_lines(lines, piece)):
                yield place, line.encode()
        finally:
            lines.detach()  # the file is closed by its owner
        return
    place = piece.start
    buffered = io.BufferedReader(file)  # not every driver can read a line up to a limit
    try:
        if place:
            buffered.seek(place - 1)
            place += len(buffered.readline()) - 1  # skip the rest of a line that began before
        for line in _bounded_lines(buffered, piece):
            if piece.stop is not None and place >= piece.stop:
                return
            yield place, line
            place += len(line)
    finally:
        with contextlib.suppress(ValueError):  # its owner has closed the file already
            buffered.detach()


def _bounded_lines(file: Any, piece: Piece) -> Iterator[Any]:
    """Yield the lines of a file; refuse overlong ones: a few compressed MB may hold a line of many GB."""
    while line := file.readline(_LONGEST_DOCUMENT + 1):
        if len(line) > _LONGEST_DOCUMENT:
            raise DataError(
                f"{piece.file} has a line of more than {_LONGEST_DOCUMENT // 10**6} MB. Split its documents."
            )
        yield line


def _paragraphs(file: Any, piece: Piece) -> Iterator[str | None]:
    """Yield plain-text documents; each belongs to the piece in which the empty line before it begins."""
    whole = replace(piece, stop=None)
    document: list[bytes] = []
    length, reading = 0, piece.start == 0
    for place, line in _lines(file, whole):
        is_past = piece.stop is not None and place >= piece.stop
        if not line.strip():
            if document:
                yield _decode(document, piece)
                document, length = [], 0
            if is_past:
                return
            reading = True
        elif reading:
            document.append(line.rstrip(b"\r\n"))
            length += len(line)
            if length > _LONGEST_DOCUMENT:
                raise DataError(
                    f"{piece.file} has a document of more than {_LONGEST_DOCUMENT // 10**6} MB. Documents of "
                    "plain text must have empty lines between them; or make it JSON lines, one document each."
                )
        elif is_past:  # in a document that began before this piece
            return
    if document:
        yield _decode(document, piece)


def _decode(lines: Sequence[bytes], piece: Piece) -> str | None:
    encoding = "utf-8" if piece.encoding == "utf-16" else piece.encoding
    try:
        return b"\n".join(lines).decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None
