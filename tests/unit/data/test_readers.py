from __future__ import annotations

import json
from pathlib import Path

import pytest

from understudy.data.readers import read_file
from understudy.errors import DataError


def rows_of(path: Path, **options: bool) -> list[dict]:
    return [row.values for row in read_file(path, **options)]


def problems_of(path: Path) -> list[tuple[str, str]]:
    return [(row.where, row.problem.name) for row in read_file(path) if row.problem]


def test_tsv_quotes_are_text(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n"He said\t1\n"a ""b"" c"\t0\n', "utf-8")
    assert [row["text"] for row in rows_of(path)] == ['"He said', '"a ""b"" c"']


def test_csv_quotes_are_quotes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"one, ""two""\nthree",1\nfour,0\n', "utf-8")
    rows = list(read_file(path))
    assert rows[0].values == {"text": 'one, "two"\nthree', "label": "1"}
    assert [row.where for row in rows] == ["line 2", "line 4"]


def test_csv_with_semicolons(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text;label\none, two;1\n", "utf-8")
    assert rows_of(path) == [{"text": "one, two", "label": "1"}]


def test_csv_reading_goes_on_after_broken_quoting(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"a"b,1\ngood,0\n', "utf-8")
    assert problems_of(path) == [("line 2", "broken quoting")]
    assert [row for row in rows_of(path) if row] == [{"text": "good", "label": "0"}]


def test_byte_order_mark_and_windows_line_ends_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xef\xbb\xbftext\tlabel\r\nhello\t1\r\n")
    assert rows_of(path) == [{"text": "hello", "label": "1"}]


def test_unicode_line_separators_do_not_end_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\none\u2028two\x85three\t1\n", "utf-8")
    assert rows_of(path) == [{"text": "one\u2028two\x85three", "label": "1"}]


def test_without_a_header_columns_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("gj04\t1\t\tThe cat sat.\n", "utf-8")
    assert rows_of(path, header=False) == [{0: "gj04", 1: "1", 2: "", 3: "The cat sat."}]


def test_blank_lines_are_no_rows(tmp_path: Path) -> None:
    for name, text in (("a.tsv", "text\tlabel\n\nx\t1\n\n"), ("a.csv", "text,label\n\nx,1\n\n")):
        (tmp_path / name).write_text(text, "utf-8")
        assert rows_of(tmp_path / name) == [{"text": "x", "label": "1"}]


def test_conll_sentences_and_document_marks(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("-DOCSTART- -X- O O\n\nAnna NNP I-NP I-PER\nruns V O O\n\n\nRome N O I-LOC", "utf-8")
    rows = list(read_file(path))
    assert [row.values["words"] for row in rows] == [["Anna", "runs"], ["Rome"]]
    assert [row.values["tags"] for row in rows] == [["I-PER", "O"], ["I-LOC"]]
    assert [row.where for row in rows] == ["line 3", "line 7"]


def test_race_folder(tmp_path: Path) -> None:
    document = {
        "article": "A cat sat.",
        "questions": ["Who sat?", "Where?"],
        "options": [["cat", "dog", "cow", "pig"]] * 2,
        "answers": ["A", "D"],
    }
    (tmp_path / "high").mkdir()
    (tmp_path / "high" / "1.txt").write_text(json.dumps(document), "utf-8")
    rows = list(read_file(tmp_path))
    assert [row.where for row in rows] == ["high/1.txt question 0", "high/1.txt question 1"]
    assert rows[1].values["label"] == "D"


def test_squad_versions(tmp_path: Path) -> None:
    qas = [
        {"id": "1", "question": "Who?", "answers": [{"text": "A", "answer_start": 0}]},
        {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
    ]
    document = {
        "version": "v2.0",
        "data": [{"title": "t", "paragraphs": [{"context": "A cat.", "qas": qas}]}],
    }
    (tmp_path / "a.json").write_text(json.dumps(document), "utf-8")
    assert [row["answers"]["text"] for row in rows_of(tmp_path / "a.json")] == [["A"], []]


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"a\.xlsx: the ending must be \.csv"):
        read_file(tmp_path / "a.xlsx")
