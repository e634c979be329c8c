"""Text files in any encoding, read line by line. Every reader of text files goes through `text_lines`."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from understudy.errors import DataError

_BLOCK = 1 << 20
_BYTE_ORDER_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_NAMES = {"utf-8": "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252"}
# surrogateescape puts a byte that cannot be decoded at U+DC00 plus its value.
_ESCAPED = re.compile("[\udc80-\udcff]")
_NOT_ASCII = re.compile("[^\x00-\x7f\udc80-\udcff]")
_NOT_LETTERS = bytes(byte for byte in range(256) if not (byte < 128 and chr(byte).isalpha()))


def is_encoding(name: str) -> bool:
    """Return whether Python has a text encoding of this name.

    >>> is_encoding("cp1252"), is_encoding("base64")
    (True, False)
    """
    try:
        b"ab".decode(name, "ignore")  # empty bytes would not look the name up
    except LookupError:
        return False
    return True


def choose_encoding(path: Path, given: str | None = None, *, setting: str = "--set data.encoding=") -> str:
    """Return the encoding that the user gives, otherwise the one detected from the file's bytes.

    Args:
        setting: how the user gives an encoding, for the message about bytes that are not text.
    """
    if given is not None:
        return given
    try:
        with path.open("rb") as file:
            return find_encoding(file)
    except ValueError as error:
        raise DataError(
            f"{path} {error}. Save it as UTF-8, or name its encoding (cp1251, gb18030, shift_jis …), e.g. "
            f"{setting}cp1251."
        ) from None


def find_encoding(file: BinaryIO, *, limit: int | None = None) -> str:
    """Return the encoding of a file that is open at its start, reading it in blocks.

    A byte order mark decides. Otherwise a file is UTF-8 if it is valid UTF-8, or if most of its non-ASCII
    characters are: then only single bytes are broken, and so are their rows. Otherwise it is Windows-1252,
    which contains all letters of Latin-1.

    Args:
        limit: decide by this many bytes from the start.

    Raises:
        ValueError: if it is no text, or most letters are outside of ASCII, so that it is neither of the two.
    """
    start = file.read(2)
    for mark, name in _BYTE_ORDER_MARKS:
        if start == mark:
            return name
    file.seek(0)
    strict = codecs.getincrementaldecoder("utf-8")()
    try:
        for block, is_last in _blocks(file, limit):
            strict.decode(block, is_last)
        return "utf-8"
    except UnicodeDecodeError:
        file.seek(0)
    lenient = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    num_valid = num_broken = num_letters = num_nulls = 0
    for block, is_last in _blocks(file, limit):
        text = lenient.decode(block, is_last)
        num_valid += len(_NOT_ASCII.findall(text))
        num_broken += len(_ESCAPED.findall(text))
        num_letters += len(block.translate(None, _NOT_LETTERS))
        num_nulls += block.count(0)
    if num_valid > num_broken:
        return "utf-8"
    if num_nulls:
        raise ValueError("is not a text file: it has null bytes")
    if num_broken > num_letters:
        raise ValueError("is neither UTF-8 nor Windows-1252: most of its letters are outside of ASCII")
    return "cp1252"


def _blocks(file: BinaryIO, limit: int | None) -> Iterator[tuple[bytes, bool]]:
    """Yield the blocks of a file up to a limit; an empty one marks its end."""
    left = limit
    while left is None or left > 0:
        block = file.read(_BLOCK if left is None else min(_BLOCK, left))
        yield block, not block
        if not block:
            return
        left = None if left is None else left - len(block)


def encoding_name(encoding: str) -> str:
    """Return the usual name of an encoding, for messages.

    >>> encoding_name("cp1252")
    'Windows-1252'
    """
    return _NAMES.get(encoding, encoding)


def text_lines(path: Path, encoding: str) -> Iterator[str]:
    r"""Yield the lines of a text file, which end with \n alone, without a byte order mark.

    Bytes that cannot be decoded become lone surrogates, which `rows.py` reports by row.
    """
    try:
        with path.open(encoding=encoding, errors="surrogateescape", newline="\n") as file:
            for number, line in enumerate(file):
                yield line if number else line.removeprefix("\ufeff")
    except UnicodeError as error:  # broken UTF-16 cannot be escaped
        raise DataError(
            f"{path} cannot be read as {encoding_name(encoding)}: {error}. Save it again as UTF-8."
        ) from None


def table_delimiter(path: Path, encoding: str) -> str:
    """Return the delimiter of a table: tabs in .tsv, otherwise the most frequent one in the first line."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    header = next(text_lines(path, encoding), "")
    return max(",;\t", key=header.count)
