"""The sentences that were found: one Parquet file for each piece of the corpus, merged at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.data.documents import Piece, read_documents
from understudy.files import write_atomically
from understudy.mining.search import Nearest
from understudy.mining.sentences import Sentence, document_sentences, fingerprint
from understudy.mining.vectors import Embed, Vectors

_SENTENCES_AT_A_TIME = 4096
_SCHEMA = pa.schema(
    {"query": pa.int32(), "similarity": pa.float32(), "text": pa.string(), "following": pa.string()}
)
_COUNT = b"understudy.sentences"


@dataclass(frozen=True)
class Found:
    """A sentence that was found for a query.

    Attributes:
        query: the number of the task's text that it is close to.
    """

    query: int
    similarity: float
    sentence: Sentence

    @property
    def text(self) -> str:
        return self.sentence.text


def search_piece(
    piece: Piece,
    column: str,
    queries_QD: Vectors,
    embed: Embed,
    *,
    count: int,
    lengths: tuple[int, int],
    excluded: Iterable[bytes],
    path: Path,
) -> None:
    """Find the sentences of a piece of the corpus that are closest to each query, and write them."""
    nearest, kept = Nearest(queries_QD, count), list[Sentence]()
    rest = document_sentences(read_documents(piece, column), lengths, set(excluded))
    while block := list(islice(rest, _SENTENCES_AT_A_TIME)):
        nearest.add(embed([sentence.text for sentence in block]), len(kept))
        kept += block
    queries_N, places_N = np.nonzero(nearest.numbers_QK >= 0)
    sentences = [kept[number] for number in nearest.numbers_QK[queries_N, places_N]]
    columns = [
        queries_N.astype(np.int32),
        nearest.similarities_QK[queries_N, places_N],
        [sentence.text for sentence in sentences],
        [sentence.following for sentence in sentences],
    ]
    table = pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)],
        schema=_SCHEMA.with_metadata({_COUNT: str(len(kept))}),
    )
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))


def count_sentences(path: Path) -> int:
    """Return the number of sentences that were compared for a file of found ones."""
    return int(pq.read_schema(path).metadata[_COUNT])


def merge_found(paths: Sequence[Path], num_queries: int, count: int) -> list[list[Found]]:
    """Return the closest sentences of each query over all files, each text once, closest first."""
    best: list[list[Found]] = [[] for _ in range(num_queries)]
    for path in paths:
        table = pq.read_table(path)
        columns = [table.column(name).to_pylist() for name in _SCHEMA.names]
        for query, similarity, text, following in zip(*columns, strict=True):
            best[query].append(Found(query, similarity, Sentence(text, following)))
        best = [_closest(found, count) for found in best]
    return best


def _closest(found: Sequence[Found], count: int) -> list[Found]:
    ordered = sorted(found, key=lambda one: -one.similarity)  # stable: earlier files first
    distinct = {fingerprint(one.text): one for one in reversed(ordered)}
    return [one for one in ordered if distinct[fingerprint(one.text)] is one][:count]


def drop_duplicates(
    found: Sequence[Sequence[Found]], embed: Embed, excluded_ED: Vectors, threshold: float
) -> tuple[list[list[Found]], Counter[str]]:
    """Drop sentences that are near duplicates of a training text, an excluded text, or a closer sentence.

    Duplicates among the found sentences are looked for among those of one query: near duplicates are close
    to the same text.

    Args:
        excluded_ED: the vectors of development and other excluded texts.
        threshold: the cosine similarity of near duplicates.
    """
    counts: Counter[str] = Counter()
    places = {
        text: place for place, text in enumerate(dict.fromkeys(one.text for row in found for one in row))
    }
    vectors_SD = embed_all(list(places), embed)
    is_excluded_S = _largest_similarity(vectors_SD, excluded_ED) >= threshold
    kept: list[list[Found]] = []
    for sentences in found:
        chosen: dict[int, Found] = {}
        for one in sentences:
            place = places[one.text]
            if is_excluded_S[place]:
                counts["like_an_excluded_row"] += 1
            elif one.similarity >= threshold:
                counts["like_a_training_row"] += 1
            elif (vectors_SD[list(chosen)] @ vectors_SD[place]).max(initial=-1.0) >= threshold:
                counts["like_a_closer_sentence"] += 1
            else:
                chosen[place] = one
        kept.append(list(chosen.values()))
    return kept, counts


def embed_all(texts: Sequence[str], embed: Embed) -> Vectors:
    """Return the vectors of any number of texts, embedded in blocks."""
    starts = range(0, max(1, len(texts)), _SENTENCES_AT_A_TIME)
    return np.concatenate([embed(texts[start : start + _SENTENCES_AT_A_TIME]) for start in starts])


def _largest_similarity(vectors_SD: Vectors, others_ED: Vectors) -> Vectors:
    """Return the largest cosine similarity of each vector with any of the others; -1 if there are none."""
    starts = range(0, len(vectors_SD), _SENTENCES_AT_A_TIME)
    blocks = (vectors_SD[start : start + _SENTENCES_AT_A_TIME] @ others_ED.T for start in starts)
    return np.concatenate([block.max(axis=1, initial=-1.0) for block in blocks] or [np.empty(0, np.float32)])
