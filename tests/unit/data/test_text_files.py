from __future__ import annotations

import codecs
import io
import json
import logging
from pathlib import Path

import pytest

from understudy.data import text_files
from understudy.data.documents import find_files, read_documents, split_files
from understudy.data.load import announce, load_data
from understudy.data.readers import read_file
from understudy.data.settings import DataSettings
from understudy.data.text_files import choose_encoding, find_encoding, table_delimiter, text_lines
from understudy.errors import DataError, RecipeError
from understudy.kinds.tasks import get_task
from understudy.recipe.recipe import Recipe

TEXTS = ["Café crème, naïve", "“Quoted” for €5 – fine", "plain"]
CSV = "text;label\n" + "".join(f'"{text}";{number % 2}\n' for number, text in enumerate(TEXTS))
GERMAN = [text.replace("“", "ä").replace("”", "ö").replace("€", "ü").replace("–", "ß") for text in TEXTS]

ENCODINGS = {
    "utf-8": "utf-8",
    "utf-8-sig": "utf-8",
    "utf-16": "utf-16",
    "utf-16-be with a mark": "utf-16",
    "cp1252": "cp1252",
    "latin-1": "cp1252",
}


def encode(text: str, name: str) -> bytes:
    if name == "utf-16-be with a mark":
        return codecs.BOM_UTF16_BE + text.encode("utf-16-be")
    return text.encode(name)


def texts_for(name: str) -> list[str]:
    return GERMAN if name == "latin-1" else TEXTS


@pytest.mark.parametrize("name", ENCODINGS)
def test_an_encoding_is_found_and_read(name: str, tmp_path: Path) -> None:
    texts = texts_for(name)
    lines = "".join(json.dumps({"text": text, "label": "a"}, ensure_ascii=False) + "\n" for text in texts)
    table = "text;label\n" + "".join(f'"{text}";a\n' for text in texts)
    for file, content in (("a.csv", table), ("a.tsv", table.replace(";", "\t")), ("a.jsonl", lines)):
        (tmp_path / file).write_bytes(encode(content, name))
        with (tmp_path / file).open("rb") as opened:
            assert find_encoding(opened) == ENCODINGS[name]
        assert [row.values["text"].strip('"') for row in read_file(tmp_path / file)] == texts


def test_windows_1252_has_the_letters_of_latin_1() -> None:
    letters = bytes(range(0xA0, 0x100))
    assert letters.decode("cp1252") == letters.decode("latin-1")


def test_a_broken_byte_does_not_make_utf8_another_encoding(tmp_path: Path) -> None:
    """Two valid characters and one broken byte: its row is bad, and the others are as written."""
    path = tmp_path / "a.tsv"
    path.write_bytes(b"text\tlabel\ncaf\xc3\xa9\t1\nna\xc3\xafve\t0\ncut \xc3\t1\n")
    rows = list(read_file(path))
    assert [row.values["text"] for row in rows[:2]] == ["café", "naïve"]
    with pytest.raises(DataError, match=r"line 4: text has a byte, 0xC3, that is no character"):
        load_data(get_task("sst2"), DataSettings(train=str(path)), ["train"])


def test_as_many_broken_bytes_as_characters_are_windows_1252() -> None:
    """`Ã©` is valid UTF-8 by chance; with one `é` beside it the file is not UTF-8."""
    assert find_encoding(io.BytesIO(b"caf\xc3\xa9, caf\xc3\xa9, caf\xe9")) == "utf-8"
    assert find_encoding(io.BytesIO(b"caf\xc3\xa9, caf\xe9")) == "cp1252"


def test_an_undefined_byte_is_a_bad_row_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\ncaf\xe9,1\nna\xefve \x81,0\n")
    with pytest.raises(DataError, match=r"invalid byte \(1\)\s+line 3: text has a byte, 0x81"):
        load_data(get_task("sst2"), DataSettings(train=str(path)), ["train"])
    loaded = load_data(get_task("sst2"), DataSettings(train=str(path), bad_rows="drop"), ["train"])
    assert loaded.splits["train"]["text"][:] == ["café"]


def test_letters_of_another_alphabet_are_not_guessed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\nПрекрасный фильм,1\nОчень плохо,0\n".encode("cp1251"))
    settings = DataSettings(train=str(path))
    with pytest.raises(DataError, match=r"a\.csv is neither UTF-8 nor Windows-1252.*data\.encoding"):
        load_data(get_task("sst2"), settings, ["train"])
    given = load_data(get_task("sst2"), settings.model_copy(update={"encoding": "cp1251"}), ["train"])
    assert given.splits["train"]["text"][:] == ["Прекрасный фильм", "Очень плохо"]


def test_a_given_encoding_wins_and_makes_other_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\nŁódź,1\n".encode("cp1250"))
    found = load_data(get_task("sst2"), DataSettings(train=str(path)), ["train"])
    given = load_data(get_task("sst2"), DataSettings(train=str(path), encoding="cp1250"), ["train"])
    assert found.splits["train"]["text"][:] == ["£ódŸ"]
    assert given.splits["train"]["text"][:] == ["Łódź"]
    assert found.hashes != given.hashes
    assert (found.encodings, given.encodings) == ({"a.csv": "cp1252"}, {})


def test_what_is_not_utf8_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "reviews.csv").write_bytes("text,label\ncafé,1\n".encode("cp1252"))
    (tmp_path / "more.txt").write_bytes("très bien\n".encode("utf-16"))
    settings = DataSettings(train=str(tmp_path / "reviews.csv"), unlabelled=[str(tmp_path / "more.txt")])
    loaded = load_data(get_task("sst2"), settings, ["train"])
    assert loaded.splits["unlabelled"]["text"][:] == ["très bien"]
    with caplog.at_level(logging.INFO):
        announce(loaded)
    assert "reviews.csv is Windows-1252, not UTF-8, and is read as such." in caplog.text
    assert "more.txt is UTF-16, not UTF-8" in caplog.text


def test_an_encoding_without_effect_or_unknown_is_refused(tmp_path: Path) -> None:
    settings = DataSettings(train=str(tmp_path / "a.parquet"), encoding="cp1252")
    with pytest.raises(RecipeError, match=r"data\.encoding has no effect"):
        load_data(get_task("sst2"), settings, ["train"])
    with pytest.raises(RecipeError, match=r"data\.encoding: .*must be a text encoding of Python.*'cp1525'"):
        Recipe.from_mapping({"task": "sst2", "data": {"encoding": "cp1525"}})


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_character_may_lie_on_the_edge_of_two_blocks(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "_BLOCK", size)
    assert find_encoding(io.BytesIO("a€b€c".encode())) == "utf-8"
    assert find_encoding(io.BytesIO("a€b€c".encode()), limit=2) == "utf-8"  # in the middle of a character
    assert find_encoding(io.BytesIO("a€b€c".encode() + b"\xe9")) == "utf-8"  # two against one
    assert find_encoding(io.BytesIO(b"words caf\xe9")) == "cp1252"


def test_a_file_is_read_in_blocks() -> None:
    class Watched(io.BytesIO):
        largest = 0

        def read(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            assert size >= 0
            self.largest = max(self.largest, size)
            return super().read(size)

    file = Watched(b"words and words \xe9\n" * 200_000)
    assert find_encoding(file) == "cp1252"
    assert file.largest == 1 << 20


def test_broken_utf16_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("a line\n".encode("utf-16") + b"\x00")
    with pytest.raises(DataError, match=r"a\.txt cannot be read as UTF-16"):
        list(text_lines(path, "utf-16"))


def test_the_delimiter_is_read_in_the_files_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("text;label\n".encode("utf-16"))
    assert table_delimiter(path, "utf-16") == ";"


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("piece_bytes", [11, 10**6])
def test_documents_in_any_encoding(name: str, piece_bytes: int, tmp_path: Path) -> None:
    texts = texts_for(name)
    (tmp_path / "a.txt").write_bytes(encode("\n\n".join(texts), name))
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    (tmp_path / "b.jsonl").write_bytes(encode("\n".join(lines), name))
    pieces = split_files(find_files([str(tmp_path)]), piece_bytes)
    assert [text for piece in pieces for text in read_documents(piece, "text")] == texts * 2


def test_a_binary_file_is_not_taken_for_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(bytes(range(256)) * 4)
    with pytest.raises(DataError, match="is not a text file: it has null bytes"):
        choose_encoding(path)


def test_a_message_says_how_to_give_an_encoding(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("привет".encode("cp1251"))
    with pytest.raises(DataError, match=r"--set data\.encoding=cp1251"):
        choose_encoding(path)
    with pytest.raises(DataError, match="--encoding cp1251"):
        choose_encoding(path, setting="--encoding ")
