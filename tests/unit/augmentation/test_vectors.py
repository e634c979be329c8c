from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from understudy.augmentation.vectors import Vectors, load_vectors
from understudy.errors import DataError

WORDS = ["cat", "dog", "car", "nothing", "x2", "Cat", "broken"]
MATRIX = np.array([[1, 0], [3, 1], [0, 1], [0, 0], [1, 0.1], [1, 0.01], [np.nan, 1]], dtype=np.float32)


def test_neighbours_by_cosine_without_the_word_itself() -> None:
    vectors = Vectors(WORDS, MATRIX)
    assert vectors.words == ["cat", "dog", "car", "Cat"]
    found = vectors.neighbours(["cat", "DOG", "nothing", "bird", "broken"], 2)
    assert found == {"cat": ("dog", "car"), "DOG": ("Cat", "cat")}


def test_many_words_at_once_are_as_one_alone() -> None:
    generator = np.random.default_rng(0)
    names = ["".join(chr(97 + int(d)) for d in f"{n:04d}") for n in range(300)]
    vectors = Vectors(names, generator.normal(size=(300, 8)).astype(np.float32))
    together = vectors.neighbours(names, 5)
    for name in names[:20]:
        assert vectors.neighbours([name], 5)[name] == together[name]
    # By hand: the cosine of every other word, sorted.
    unit = vectors.matrix_WD
    order = [names[place] for place in np.argsort(-(unit @ unit[7]), kind="stable") if place != 7]
    assert list(together[names[7]]) == order[:5]


def write_text(path: Path, *, header: bool) -> Path:
    lines = [f"{len(WORDS)} 2\n"] if header else []
    lines += [f"{word} {a} {b}\n" for word, (a, b) in zip(WORDS, MATRIX.tolist(), strict=True)]
    path.write_text("".join(lines), "utf-8")
    return path


def write_binary(path: Path) -> Path:
    content = f"{len(WORDS)} 2\n".encode()
    for word, vector in zip(WORDS, MATRIX, strict=True):
        content += word.encode() + b" " + vector.tobytes() + b"\n"
    path.write_bytes(content)
    return path


def test_every_format(tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", MATRIX)
    (tmp_path / "words.txt").write_text("\n".join(WORDS), "utf-8")
    pq.write_table(pa.table({"number": list(range(len(WORDS))), "word": WORDS}), tmp_path / "words.parquet")
    found = [
        load_vectors(write_text(tmp_path / "glove.txt", header=False)),
        load_vectors(write_text(tmp_path / "fast.vec", header=True)),
        load_vectors(write_binary(tmp_path / "word2vec.bin")),
        load_vectors(tmp_path / "array.npy", tmp_path / "words.txt"),
        load_vectors(tmp_path / "array.npy", tmp_path / "words.parquet"),
    ]
    for vectors in found:
        assert vectors.words == ["cat", "dog", "car", "Cat"]
        assert np.allclose(vectors.matrix_WD, found[0].matrix_WD)
        assert np.allclose(np.linalg.norm(vectors.matrix_WD, axis=1), 1)


def test_words_with_spaces_of_the_published_files(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("cat 1 0\n. . . 1 1\ndog 0 1\n", "utf-8")
    assert load_vectors(tmp_path / "glove.txt").words == ["cat", "dog"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "cat 1 0\ndog 1\n", "line 2 has 1 numbers, and 2 were expected"),
        ("a.txt", "cat 1 zero\n", "cannot be read as word vectors"),
        ("a.txt", "", "has no words"),
        ("a.bin", "3 2\ncat ", "the file ends in the middle of a word's numbers"),
    ],
)
def test_bad_files(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(DataError, match=message):
        load_vectors(tmp_path / name)


def test_an_array_needs_its_words(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", MATRIX)
    (tmp_path / "words.txt").write_text("cat\n", "utf-8")
    with pytest.raises(DataError, match=r"augment\.vector_words goes with"):
        load_vectors(tmp_path / "a.npy")
    with pytest.raises(DataError, match=r"1 words for an array of the shape \(7, 2\)"):
        load_vectors(tmp_path / "a.npy", tmp_path / "words.txt")
    with pytest.raises(DataError, match="must be a file of word vectors"):
        load_vectors(tmp_path / "none.txt")
