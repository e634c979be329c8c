from __future__ import annotations

import gzip
import json
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.data.documents import Piece, find_files, read_documents, split_files
from understudy.errors import DataError

TEXTS = [f"document {number} " + "word " * (number % 7) for number in range(60)]


def read_all(files: dict[str, int], piece_bytes: int, column: str = "text") -> list[str | None]:
    pieces = split_files(files, piece_bytes)
    return [document for piece in pieces for document in read_documents(piece, column)]


def write(folder: Path, suffix: str) -> Path:
    path = folder / f"a{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.table({"text": TEXTS, "id": range(60)}), path, row_group_size=7)
    elif suffix.startswith(".jsonl"):
        content = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()
        path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    else:
        path.write_text("\n\n".join(TEXTS))
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".jsonl.gz", ".txt"])
@pytest.mark.parametrize("piece_bytes", [1, 37, 500, 10**6])
def test_pieces_of_any_size_give_the_same_documents(suffix: str, piece_bytes: int, tmp_path: Path) -> None:
    files = find_files([str(write(tmp_path, suffix))])
    assert [str(text).strip() for text in read_all(files, piece_bytes)] == [text.strip() for text in TEXTS]
    pieces = split_files(files, piece_bytes)
    assert len(pieces) == (1 if suffix.endswith(".gz") or piece_bytes == 10**6 else len(pieces))
    if piece_bytes == 37 and not suffix.endswith(".gz"):
        assert len(pieces) > 5


@settings(deadline=None)
@given(
    st.lists(st.text("ab \n\r", max_size=12), max_size=8).map("\n".join),
    st.integers(1, 12),
)
def test_plain_text_is_read_alike_in_one_piece_and_in_many(text: str, piece_bytes: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.txt"
        path.write_bytes(text.encode())
        whole = list(read_documents(Piece(str(path), "text", 0, None, 0), "text"))
        assert read_all(find_files([str(path)]), piece_bytes) == whole


def test_files_are_found_in_folders_and_by_patterns_in_order(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("b.txt", "a.jsonl", "deep/c.parquet", "notes.md"):
        (tmp_path / name).write_text("x")
    names = [Path(name).name for name in find_files([str(tmp_path)])]
    assert names == ["a.jsonl", "b.txt", "c.parquet"]
    assert [Path(name).name for name in find_files([f"{tmp_path}/*.txt"])] == ["b.txt"]
    with pytest.raises(DataError, match="neither a file nor a folder"):
        find_files([str(tmp_path / "none")])
    with pytest.raises(DataError, match=r"no file of text.*\.parquet"):
        find_files([f"{tmp_path}/*.md"])


def test_what_cannot_be_read_is_none_and_another_column_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [
        b'{"text": "good"}',
        b"{broken",
        b'{"other": 1}',
        b'{"text": ""}',
        b'{"text": "\\ud800"}',
        b"[1]",
        b"[" * 100_000,
    ]
    path.write_bytes(b"\n".join(lines))
    assert read_all(find_files([str(path)]), 10**6) == ["good", *[None] * 6]
    pq.write_table(pa.table({"body": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(DataError, match="no column 'text'; it has body"):
        read_all(find_files([str(tmp_path / "b.parquet")]), 10)
    (tmp_path / "c.txt").write_bytes("café, naïve\n\n".encode() + b"\xff\n\nlast")
    assert read_all(find_files([str(tmp_path / "c.txt")]), 3) == ["café, naïve", None, "last"]
    (tmp_path / "d.parquet").write_bytes(b"")
    with pytest.raises(DataError, match=r"d\.parquet is no Parquet file"):
        split_files(find_files([str(tmp_path / "d.parquet")]), 10)
    (tmp_path / "e.txt").write_text("")
    assert split_files(find_files([str(tmp_path / "e.txt")]), 10) == []


def test_a_document_is_the_same_whatever_ends_its_lines_and_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\n\nthree\r\n\r\none\r\ntwo")
    assert read_all(find_files([str(tmp_path / "a.txt")]), 10**6) == ["one\ntwo", "three", "one\ntwo"]


def test_text_without_empty_lines_is_told_and_not_read_again_for_every_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.data.documents._LONGEST_DOCUMENT", 1_000)
    (tmp_path / "a.txt").write_text("a line\n" * 1_000)
    pieces = split_files(find_files([str(tmp_path / "a.txt")]), 500)
    with pytest.raises(DataError, match="must have empty lines between them"):
        list(read_documents(pieces[0], "text"))
    assert list(read_documents(pieces[1], "text")) == []


class Remote(AbstractBufferedFile):
    """A file as drivers of remote storage open it: its `readline` takes no limit."""

    content = b"one\ntwo\n\nthree\n"

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.content[start:end]


class RemoteFiles(AbstractFileSystem):
    protocol = "remote"

    def info(self, path: str, **_: object) -> dict[str, object]:
        return {"name": path, "size": len(Remote.content), "type": "file"}

    def ls(self, path: str, detail: bool = True, **_: object) -> list[object]:
        return [self.info(path) if detail else path]

    def _open(self, path: str, mode: str = "rb", **_: object) -> Remote:
        return Remote(self, path, mode, cache_type="bytes", size=len(Remote.content))


def test_files_of_remote_storage_are_read_in_pieces() -> None:
    fsspec.register_implementation("remote", RemoteFiles, clobber=True)
    files = find_files(["remote://bucket/a.txt"])
    assert read_all(files, 10**6) == read_all(files, 4) == ["one\ntwo", "three"]
