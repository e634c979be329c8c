from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from understudy.data.delimited import read_table
from understudy.errors import DataError
from understudy.kinds import get_rows
from understudy.predictor.tables import (
    EmptyTexts,
    Records,
    group_texts,
    read_file,
    read_pipe,
    write_predictions,
    write_vectors,
)

TEXT, PAIR = ("text",), ("text", "text_pair")
ONE = get_rows("classification")


def rows_of(read: Records) -> list[object]:
    return [read.row(record) for record in read.records]


def read(file: Path, fields: tuple[str, ...] = TEXT, **options: object) -> Records:
    return read_file(file, fields, **{"given": {}, "trained": {}, **options})  # type: ignore[arg-type]


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    with pytest.raises(DataError, match=r"a\.csv is empty: there is no line with the names"):
        read(tmp_path / "a.csv")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_a_table_in_any_encoding(encoding: str, delimiter: str, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(f"id{delimiter}text\n1{delimiter}café\n".encode(encoding))
    found = read(file)
    assert found.encoding == encoding.removesuffix("-sig")
    assert rows_of(found) == [{"text": "café"}]
    assert list(read(file).records) == [{"id": "1", "text": "café"}]


def test_a_text_file_has_a_text_per_line(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("café\r\n\n{oops\n".encode("cp1252"))
    assert rows_of(read(file)) == ["café", "", "{oops"]
    file.write_text('one\ttwo\n{"text": "three", "text_pair": "four"}\n')
    assert rows_of(read(file, PAIR)) == [("one", "two"), {"text": "three", "text_pair": "four"}]


def test_a_given_encoding_wins(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("Очень хорошо\n".encode("cp1251"))
    with pytest.raises(DataError, match=r"neither UTF-8 nor Windows-1252.*--encoding"):
        read(file)
    assert rows_of(read(file, encoding="cp1251")) == ["Очень хорошо"]
    with pytest.raises(DataError, match=r"--encoding must be a text encoding .*got 'cp9'"):
        read(file, encoding="cp9")


def test_a_byte_that_is_no_text_is_an_error_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"text\ncaf\xe9\nodd \x81\n")
    with pytest.raises(DataError, match=r"line 3 has a byte, 0x81, that is not Windows-1252"):
        rows_of(read(file))
    with pytest.raises(DataError, match=r"nowhere\.csv cannot be read"):
        read(tmp_path / "nowhere.csv")
    with pytest.raises(DataError, match="line 2 is not UTF-8"):
        list(read_pipe([b"good\n", b"\xff\n"], TEXT).records)


def test_columns_are_those_given_then_those_of_training_then_the_fields(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("review,text,body\n1,2,3\n")
    assert rows_of(read(file)) == [{"text": "2"}]
    assert rows_of(read(file, trained={"text": "review"})) == [{"text": "1"}]
    assert rows_of(read(file, trained={"text": "review"}, given={"text": "body"})) == [{"text": "3"}]
    with pytest.raises(DataError, match=r"has no column revew; it has review.* Did you mean 'review'\?"):
        read(file, given={"text": "revew"})


def test_texts_of_the_shell_are_grouped_by_fields() -> None:
    assert group_texts(["a", "b"], TEXT, ONE).records == ["a", "b"]
    assert group_texts(["a", "b", "c", "d"], PAIR, ONE).records == [("a", "b"), ("c", "d")]
    assert group_texts(
        ["a", "b", "c"], get_rows("multiple-choice").inputs, get_rows("multiple-choice")
    ).records == [("a", "b", "c")]
    with pytest.raises(DataError, match="2 texts belong together"):
        group_texts(["a"], PAIR, ONE)


def empty_rows(kind: str, fields: tuple[str, ...], rows: list[object]) -> EmptyTexts:
    empty = EmptyTexts(get_rows(kind), fields)
    assert list(empty.watch(rows)) == rows
    return empty


def test_empty_texts_are_counted_and_named() -> None:
    some = ["good", "", "bad", " \t"]
    assert empty_rows("classification", TEXT, some).describe() == (
        "rows 2, 4, counted from 1, are empty; they were still predicted."
    )
    many = empty_rows("classification", TEXT, [""] * 7).describe()
    assert many is not None
    assert many.startswith("rows 1, 2, 3, 4, 5 (and 2 more), counted")
    assert empty_rows("classification", TEXT, ["good"]).describe() is None
    one = empty_rows("classification", PAIR, [("a", "b"), ("a", "")]).describe()
    assert one == "row 2, counted from 1, is empty; it was still predicted."


def test_what_may_be_empty_is_not_counted() -> None:
    fields = ("context", "question", "choices")
    assert not empty_rows("multiple-choice", fields, [("A story.", "", ["one", "two"])]).count
    assert empty_rows("multiple-choice", fields, [(" ", "Why?", ["one", "two"])]).count == 1
    assert empty_rows("token-classification", ("words",), ["", {"words": []}, "Anna"]).first == [1, 2]
    assert empty_rows("question-answering", ("question", "context"), [("", "A story.")]).count == 1


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_predictions_stand_beside_what_was_read(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"out{suffix}"
    answer = {"label": "pos", "score": 0.5, "entities": [{"text": "é"}], "probabilities": {"pos": 0.5}}
    write_predictions(file, [({"id": "1", "label": "x"}, answer)], get_rows("classification"), TEXT)
    if suffix == ".jsonl":
        expected = {"id": "1", "label": "x", "predicted_label": "pos"}
        assert json.loads(file.read_text("utf-8")).items() >= expected.items()
        return
    with file.open(encoding="utf-8", newline="") as opened:
        (row,) = csv.DictReader(opened, delimiter="\t" if suffix == ".tsv" else ",")
    assert row == {
        "id": "1", "label": "x", "predicted_label": "pos", "score": "0.5", "entities": '[{"text": "é"}]',
    }  # fmt: skip


def test_a_file_that_is_no_table_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must end in \.csv, \.tsv or \.jsonl; got 'out\.xlsx'"):
        write_predictions(tmp_path / "out.xlsx", [], get_rows("classification"), TEXT)
    assert not (tmp_path / "out.xlsx").exists()


def test_no_rows_make_an_empty_file(tmp_path: Path) -> None:
    write_predictions(tmp_path / "out.csv", [], get_rows("classification"), TEXT)
    assert (tmp_path / "out.csv").read_text() == ""


def test_tables_are_read_as_for_training(tmp_path: Path) -> None:
    """In a .tsv, quotes are text. In a .csv, a row with more columns than the first line is an error."""
    file = tmp_path / "a.TSV"
    file.write_text('id\ttext\n1\t"I am fine, she said\n2\tanother\n3\tthe "end"\n')
    texts = ['"I am fine, she said', "another", 'the "end"']
    assert rows_of(read(file)) == [{"text": text} for text in texts]
    assert [row.values["text"] for row in read_table(file, "utf-8", header=True)] == texts
    file = tmp_path / "a.csv"
    file.write_text("text\ngood, they say\n")
    with pytest.raises(DataError, match=r"a\.csv, line 2: has 2 columns, the first line has 1\. Fix it"):
        rows_of(read(file))


def test_a_tsv_is_written_as_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "out.tsv"
    rows = [({"text": 'the "end"'}, {"label": "pos"}), ({"text": '"open'}, {"label": "neg"})]
    write_predictions(file, rows, get_rows("classification"), TEXT)
    assert list(read(file).records) == [
        {"text": 'the "end"', "label": "pos"},
        {"text": '"open', "label": "neg"},
    ]
    with pytest.raises(DataError, match=r"cannot hold a text with a tab or a line break\. Write a \.csv"):
        write_predictions(file, [({"text": "a\tb"}, {"label": "x"})], get_rows("classification"), TEXT)


def test_columns_of_the_user_stay_whatever_they_are_called(tmp_path: Path) -> None:
    file = tmp_path / "out.csv"
    own = {"text": "good", "probabilities": "mine", "truncated": "no"}
    answer = {"label": "pos", "probabilities": {"pos": 1.0}, "truncated": True}
    write_predictions(file, [(own, answer)], get_rows("classification"), TEXT)
    assert list(read(file).records) == [own | {"label": "pos"}]


def test_vectors_are_written_whole(tmp_path: Path) -> None:
    def answers() -> Iterator[dict[str, list[float]]]:
        yield {"vector": [1.0, 2.0]}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_vectors(tmp_path / "out.npy", answers())
    assert not list(tmp_path.iterdir())
    write_vectors(tmp_path / "out.npy", [{"vector": [1.0, 2.0]}])
    assert np.load(tmp_path / "out.npy").tolist() == [[1.0, 2.0]]
