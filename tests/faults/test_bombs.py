"""Small files that hold far more than they seem to: read with little memory, or refused."""

from __future__ import annotations

import gzip
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from understudy.data.documents import find_files, read_documents, split_files
from understudy.data.readers import read_file
from understudy.errors import DataError
from understudy.timing.machine import peak_memory

MB = 1_000_000


def documents(file: Path) -> Iterator[Any]:
    (piece,) = split_files(find_files([str(file)]), 10**9)
    return read_documents(piece, "text")


def rows(file: Path) -> Iterator[Any]:
    return iter(read_file(file))


def read(reader: Callable[[Path], Iterator[Any]], file: Path, results: Any) -> None:
    """Read everything, and send the number of what was read, the error, and the memory that it took."""
    before, number, message = psutil.Process().memory_info().rss, 0, ""
    try:
        for _ in reader(file):
            number += 1
    except DataError as error:
        message = str(error)
    results.put((number, message, (peak_memory() - before) / MB))


def measure(reader: Callable[[Path], Iterator[Any]], file: Path) -> tuple[int, str, float]:
    context = multiprocessing.get_context("spawn")  # a fork would begin with the peak of the tests before
    results = context.Queue()
    process = context.Process(target=read, args=(reader, file, results))
    process.start()
    found: tuple[int, str, float] = results.get(timeout=120)
    process.join()
    return found


def test_a_line_that_grows_when_it_is_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "line.jsonl.gz"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        for _ in range(1_200):
            packed.write(b"a" * MB)
    assert file.stat().st_size < 10 * MB
    number, message, megabytes = measure(documents, file)
    assert number == 0
    assert file.name in message
    assert "has a line of more than 100 MB" in message
    assert megabytes < 600


@pytest.mark.parametrize("reader", [documents, rows])
def test_a_text_that_is_repeated_many_times(reader: Callable[[Path], Iterator[Any]], tmp_path: Path) -> None:
    file = tmp_path / "texts.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 4_000, pa.int32()), pa.array(["word " * 100_000]))
    pq.write_table(pa.table({"text": text}), file)
    assert file.stat().st_size < MB  # it holds 2,000 MB
    number, message, megabytes = measure(reader, file)
    assert (number, message) == (4_000, "")
    assert megabytes < 700
