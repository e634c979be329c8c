"""Read files as raw rows, one function per format, row by row (except SQuAD's JSON, a single document).

A raw row has the file's own column names and values, and the place it came from. A row that cannot even be
split into columns carries a problem instead of values. All other checks are in `rows.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from understudy.data.delimited import TABLE_SUFFIXES, read_table
from understudy.data.raw_rows import Problem, RawRow
from understudy.data.text_files import choose_encoding, encoding_name, text_lines
from understudy.errors import DataError

CONLL_SUFFIXES = (".conll", ".txt", ".train", ".testa", ".testb", ".iob", ".iob2", ".bio")
TEXT_SUFFIXES = (*TABLE_SUFFIXES, ".jsonl", ".ndjson", ".json", *CONLL_SUFFIXES)


def read_jsonl(path: Path, encoding: str) -> Iterator[RawRow]:
    """Read JSON lines: one object per line."""
    for number, line in enumerate(text_lines(path, encoding), start=1):
        where = f"line {number}"
        if not line.strip():
            continue
        try:
            # Check the bytes first: any remaining surrogates then come from \ud800 escapes.
            line.encode("utf-8")
            values = json.loads(line)
        except UnicodeEncodeError as error:
            byte = ord(line[error.start]) - 0xDC00
            detail = f"has a byte, 0x{byte:02X}, that is not {encoding_name(encoding)}"
            yield RawRow(where, problem=Problem("invalid byte", detail))
            continue
        except (json.JSONDecodeError, RecursionError) as error:
            yield RawRow(where, problem=Problem("broken JSON", f"is not JSON: {error}"))
            continue
        if isinstance(values, dict):
            yield RawRow(where, values)
        else:
            detail = f"must be a JSON object, got {type(values).__name__}"
            yield RawRow(where, problem=Problem("broken JSON", detail))


def read_parquet(path: Path) -> Iterator[RawRow]:
    """Read Parquet in batches."""
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            # A few rows at a time: a small file may hold long texts many times over.
            for batch in file.iter_batches(batch_size=256):
                for values in batch.to_pylist():
                    yield RawRow(f"row {number}", values)
                    number += 1
    except Exception as error:  # pyarrow raises its own errors, OSError and ValueError
        raise DataError(f"{path} cannot be read as Parquet: {error}. Save it again.") from None


def read_squad(path: Path, encoding: str) -> Iterator[RawRow]:
    """Read SQuAD's JSON, versions 1.1 and 2.0: one row per question."""
    try:
        document = json.loads("".join(text_lines(path, encoding)))
        if isinstance(document, list):
            raise DataError(
                f"{path} is a list of records, and .json is read as SQuAD's layout. Save it as .jsonl, an "
                "object a line."
            )
        articles = document["data"]
        for article in articles:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    answers = question["answers"]
                    yield RawRow(
                        f"question {question['id']}",
                        {
                            "id": question["id"],
                            "question": question["question"],
                            "context": paragraph["context"],
                            "answers": {
                                "text": [answer["text"] for answer in answers],
                                "answer_start": [answer["answer_start"] for answer in answers],
                            },
                        },
                    )
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
            raise DataError(f"{path} has an object a line: rename it to .jsonl.") from None
        raise DataError(
            f"{path} must be SQuAD's JSON (data → paragraphs → context, qas → id, question, "
            f"answers); reading it failed at {type(error).__name__}: {error}. Save it so, or as .jsonl "
            "with the columns question, context and answers."
        ) from None


def read_conll(path: Path, encoding: str) -> Iterator[RawRow]:
    """Read CoNLL columns: one word per line, its tag last, with a blank line between sentences."""
    words: list[str] = []
    tags: list[str] = []
    start, width = 1, 0
    problem: Problem | None = None

    def sentence() -> RawRow:
        return RawRow(f"line {start}", {"words": words, "tags": tags}, problem)

    number = 0
    for number, line in enumerate(text_lines(path, encoding), start=1):
        # Not split(): a no-break space is part of a word.
        parts = [part for part in re.split(r"[ \t]+", line.strip("\r\n")) if part]
        if not parts or parts[0] == "-DOCSTART-":
            if words or problem:
                yield sentence()
            words, tags, problem = [], [], None
            continue
        if not words and problem is None:
            start = number
        width = width or len(parts)
        if len(parts) != width or width < 2:
            expected = f"the first has {width}" if width > 1 else "a word and a tag are needed"
            problem = Problem(
                "wrong number of columns",
                f"line {number} has {len(parts)} column{'s' * (len(parts) != 1)}, {expected}",
            )
            continue
        words.append(parts[0])
        tags.append(parts[-1])
    if words or problem:
        yield sentence()


def read_lines(path: Path, encoding: str) -> Iterator[RawRow]:
    """Read plain text with one text per line; empty lines are skipped."""
    for number, line in enumerate(text_lines(path, encoding), start=1):
        if line.strip():
            yield RawRow(f"line {number}", {"text": line.rstrip("\r\n")})


def read_race(path: Path, encoding: str | None = None) -> Iterator[RawRow]:
    """Read RACE's folders of .txt files, each a JSON object with an article and its questions."""
    files = sorted(path.rglob("*.txt"))
    if not files:
        raise DataError(
            f"{path} is a folder, and rows are read from files. Name the file, or give a folder with a "
            "task's files with --data. (Only RACE's folder, with high/1.txt, middle/2.txt …, is read so.)"
        )
    for file in files:
        name = file.relative_to(path).as_posix()
        try:
            document = json.loads("".join(text_lines(file, choose_encoding(file, encoding))))
            questions = list(
                zip(
                    document["questions"],
                    document["options"],
                    document["answers"],
                    strict=True,
                )
            )
            article = document["article"]
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            detail = f"is not a RACE document ({type(error).__name__}: {error})"
            yield RawRow(name, problem=Problem("broken JSON", detail))
            continue
        for index, (question, choices, answer) in enumerate(questions):
            yield RawRow(
                f"{name} question {index}",
                {"context": article, "question": question, "choices": choices, "label": answer},
            )


def read_file(path: Path, *, header: bool = True, encoding: str | None = None) -> Iterator[RawRow]:
    """Read any supported file or folder, by its suffix.

    Args:
        encoding: the encoding of text files. Defaults to the one detected for each file.
    """
    suffix = path.suffix.lower()
    if path.is_dir():
        return read_race(path, encoding)
    if suffix == ".parquet":
        return read_parquet(path)
    if suffix not in TEXT_SUFFIXES:
        raise DataError(
            f"{path}: the ending must be .csv, .tsv, .jsonl, .parquet, .json (SQuAD) or .conll; "
            f"got {path.suffix or 'none'!r}. Save a spreadsheet as CSV (UTF-8)."
        )
    encoding = choose_encoding(path, encoding)
    if suffix in TABLE_SUFFIXES:
        return read_table(path, encoding, header=header)
    if suffix == ".json":
        return read_squad(path, encoding)
    return read_conll(path, encoding) if suffix in CONLL_SUFFIXES else read_jsonl(path, encoding)
