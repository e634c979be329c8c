"""Word vectors, and the words nearest to a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from understudy.augmentation.words import is_word
from understudy.errors import DataError

# W words, D dimensions

# A good size for matrix products, and small enough for the scores to fit in memory.
_WORDS_AT_A_TIME = 64


class Vectors:
    """Words made of letters, with vectors of length 1; zero and non-finite vectors are left out.

    Args:
        words: the words, most frequent first, as in every format.
    """

    def __init__(self, words: Sequence[str], matrix_WD: NDArray[np.float32]) -> None:
        norms_W = np.linalg.norm(matrix_WD, axis=1)
        fit_W = np.isfinite(norms_W) & (norms_W > 0)
        kept = [place for place, word in enumerate(words) if fit_W[place] and is_word(word)]
        self.words = [words[place] for place in kept]
        self.matrix_WD = (matrix_WD[kept] / norms_W[kept, None]).astype(np.float32)
        # The first of two equal words wins.
        self._places = {word: place for place, word in reversed(list(enumerate(self.words)))}

    def _place(self, word: str) -> int | None:
        return self._places.get(word, self._places.get(word.lower()))

    def neighbours(self, words: Iterable[str], count: int) -> dict[str, tuple[str, ...]]:
        """Return, for each known word, the others with the largest cosine, nearest first."""
        known = [(word, place) for word in dict.fromkeys(words) if (place := self._place(word)) is not None]
        result = {}
        for start in range(0, len(known), _WORDS_AT_A_TIME):
            part = known[start : start + _WORDS_AT_A_TIME]
            cosines = self.matrix_WD[[place for _, place in part]] @ self.matrix_WD.T
            wanted = min(count + _SPELLINGS, len(self.words))
            best = np.argpartition(-cosines, wanted - 1, axis=1)[:, :wanted]
            for (word, _), places, row in zip(part, best, cosines, strict=True):
                # By cosine, then by index, so that ties are always in the same order.
                order = sorted(places.tolist(), key=lambda place: (-row[place], place))
                others = (self.words[place] for place in order)
                result[word] = tuple(other for other in others if other.casefold() != word.casefold())[:count]
        return result


_SPELLINGS = 8  # spellings of the word itself among its nearest


def load_vectors(path: Path, words: Path | None = None) -> Vectors:
    """Read GloVe text, word2vec text or binary (`.bin`), fastText `.vec`, or an array (`.npy`).

    Args:
        words: for an array, the words of its rows in order: a text file with one per line, or a Parquet file,
            whose first string column is used.
    """
    if not path.is_file():
        raise DataError(f"augment.vectors must be a file of word vectors; {path} is none.")
    if (path.suffix == ".npy") != (words is not None):
        raise DataError("augment.vector_words goes with augment.vectors of a .npy file, and only with it.")
    try:
        if words is not None:
            matrix = np.load(path, mmap_mode="r")
            names = _read_words(words)
            if matrix.ndim != 2 or len(names) != len(matrix):
                raise ValueError(f"{len(names):,} words for an array of the shape {matrix.shape}")
            return Vectors(names, matrix)
        with path.open("rb") as file:
            entries = list(_read_binary(file) if path.suffix == ".bin" else _read_text(file))
    except (ValueError, OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{path} cannot be read as word vectors: {error}") from None
    if not entries:
        raise DataError(f"{path} has no words.")
    return Vectors([word for word, _ in entries], np.stack([vector for _, vector in entries]))


def _read_text(file: BinaryIO) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Read a word and its numbers per line; word2vec and fastText begin with a line of counts."""
    size = None
    for number, line in enumerate(file, start=1):
        parts = line.rstrip().split(b" ")
        if number == 1 and len(parts) == 2:
            size = int(parts[1])
            continue
        size = size or len(parts) - 1
        # Some words in the published files contain spaces, so the numbers are taken from the end.
        if len(parts) <= size:
            raise ValueError(f"line {number} has {len(parts) - 1} numbers, and {size} were expected")
        word = b" ".join(parts[:-size]).decode("utf-8", errors="replace")
        yield word, np.array(parts[-size:], dtype=np.float32)


def _read_binary(file: BinaryIO) -> Iterator[tuple[str, NDArray[np.float32]]]:
    count, size = (int(part) for part in file.readline().split())
    for _ in range(count):
        word = bytearray()
        while (character := file.read(1)) not in (b" ", b""):
            word += character
        numbers = file.read(4 * size)
        if len(numbers) < 4 * size:
            raise ValueError("the file ends in the middle of a word's numbers")
        yield word.decode("utf-8", errors="replace").strip(), np.frombuffer(numbers, np.float32)


def _read_words(path: Path) -> list[str]:
    if path.suffix != ".parquet":
        return path.read_text("utf-8").splitlines()
    table = pq.read_table(path)
    names = [name for name in table.column_names if pa.types.is_string(table[name].type)]
    if not names:
        raise ValueError(f"{path} has no column of words")
    words: list[str] = table[names[0]].to_pylist()
    return words
