"""The sentences that were found: one Parquet file for each piece of the corpus, merged at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.data.documents import Piece, read_documents
from understudy.files import write_sealed
from understudy.mining.search import Nearest
from understudy.mining.sentences import Sentence, document_sentences, fingerprint
from understudy.mining.vectors import Embed, Vectors

# Q queries, S sentences, E excluded texts, D dimensions

_BLOCK = 4096  # sentences at a time
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

    @property
    def following(self) -> str:
        return self.sentence.following


def search_piece(
    piece: Piece,
    column: str,
    queries_QD: Vectors,
    embed: Embed,
    *,
    count: int,
    lengths: tuple[int, int],
    excluded: Collection[bytes],
    path: Path,
) -> None:
    """Find the sentences of a piece of the corpus that are closest to each query, and write them."""
    nearest, kept, num_sentences = Nearest(queries_QD, count), dict[int, Sentence](), 0
    rest = document_sentences(read_documents(piece, column), lengths, excluded)
    while block := list(islice(rest, _BLOCK)):
        nearest.add(embed([sentence.text for sentence in block]), num_sentences)
        kept |= dict(enumerate(block, num_sentences))
        num_sentences += len(block)
        if len(kept) > 2 * nearest.numbers_QK.size + _BLOCK:  # forget those that are not among the closest
            alive = set(nearest.numbers_QK.ravel().tolist())
            kept = {number: sentence for number, sentence in kept.items() if number in alive}
    queries_N, places_N = np.nonzero(nearest.numbers_QK >= 0)
    sentences = [kept[number] for number in nearest.numbers_QK[queries_N, places_N].tolist()]
    columns = [
        queries_N.astype(np.int32),
        nearest.similarities_QK[queries_N, places_N],
        [sentence.text for sentence in sentences],
        [sentence.following for sentence in sentences],
    ]
    table = pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)],
        schema=_SCHEMA.with_metadata({_COUNT: str(num_sentences)}),
    )
    write_sealed(path, lambda temporary: pq.write_table(table, temporary))


def count_sentences(path: Path) -> int:
    """Return the number of sentences that were compared to make a file of found ones."""
    return int(pq.read_schema(path).metadata[_COUNT])


def merge_found(paths: Sequence[Path], num_queries: int, count: int) -> list[list[Found]]:
    """Return the closest sentences of each query over all files, each text once, closest first."""
    best: list[dict[bytes, Found]] = [{} for _ in range(num_queries)]
    floors_Q = np.full(num_queries, -np.inf)  # what a sentence must exceed to be among the closest
    for path in paths:
        table = pq.read_table(path)
        queries_N = table.column("query").to_numpy()
        table = table.filter(table.column("similarity").to_numpy() > floors_Q[queries_N])
        columns = [table.column(name).to_pylist() for name in _SCHEMA.names]
        for query, similarity, text, following in zip(*columns, strict=True):
            key, one = fingerprint(text), Found(query, similarity, Sentence(text, following))
            if key not in best[query] or best[query][key].similarity < similarity:
                best[query][key] = one
        for query in set(columns[0]):
            closest = sorted(best[query].items(), key=lambda item: -item[1].similarity)[:count]
            best[query] = dict(closest)  # stable: earlier files first
            if len(closest) == count:
                floors_Q[query] = closest[-1][1].similarity
    return [list(found.values()) for found in best]


def drop_duplicates(
    found: Sequence[Sequence[Found]],
    embed: Embed,
    queries_QD: Vectors,
    excluded_ED: Vectors,
    threshold: float,
) -> tuple[list[list[Found]], Counter[str]]:
    """Drop sentences that are near duplicates of any query, an excluded text, or a closer sentence.

    Found sentences are only compared with others of the same query, since near duplicates are close to the
    same text. A following sentence that is a near duplicate of an excluded text is removed.

    Args:
        excluded_ED: the vectors of development and other excluded texts.
        threshold: the cosine similarity of near duplicates.
    """
    texts = dict.fromkeys(text for row in found for one in row for text in (one.text, one.following) if text)
    places = {text: place for place, text in enumerate(texts)}
    vectors_SD = embed_all(list(places), embed)
    is_excluded_S = _largest_similarity(vectors_SD, excluded_ED) >= threshold
    is_known_S = _largest_similarity(vectors_SD, queries_QD) >= threshold
    counts: Counter[str] = Counter()
    kept: list[list[Found]] = []
    for sentences in found:
        chosen: dict[int, Found] = {}
        for one in sentences:
            place = places[one.text]
            if is_excluded_S[place]:
                counts["like_an_excluded_row"] += 1
            elif is_known_S[place]:
                counts["like_a_training_row"] += 1
            elif (vectors_SD[list(chosen)] @ vectors_SD[place]).max(initial=-1.0) >= threshold:
                counts["like_a_closer_sentence"] += 1
            elif one.following and is_excluded_S[places[one.following]]:
                chosen[place] = replace(one, sentence=Sentence(one.text, ""))
            else:
                chosen[place] = one
        kept.append(list(chosen.values()))
    return kept, counts


def embed_all(texts: Sequence[str], embed: Embed) -> Vectors:
    """Return the vectors of any number of texts, embedded in blocks."""
    starts = range(0, max(1, len(texts)), _BLOCK)
    return np.concatenate([embed(texts[start : start + _BLOCK]) for start in starts])


def _largest_similarity(vectors_SD: Vectors, others_ED: Vectors) -> Vectors:
    """Return the largest cosine similarity of each vector with any of the others; -1 if there are none."""
    largest_S = np.full(len(vectors_SD), -1.0, np.float32)
    for start in range(0, len(vectors_SD), _BLOCK):
        part = slice(start, start + _BLOCK)
        for first in range(0, len(others_ED), _BLOCK):
            scores = vectors_SD[part] @ others_ED[first : first + _BLOCK].T
            largest_S[part] = np.maximum(largest_S[part], scores.max(axis=1))
    return largest_S
