"""Pure functions that split a document's tokens into blocks of whole sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import regex
from numpy.typing import NDArray

Tokens = NDArray[np.int64]

# Where a sentence may end. A wrong guess, e.g. after "Dr.", only moves the end of a block.
_SENTENCE_END = regex.compile(r"\n+|[.!?…।؟۔]+[\p{Pe}\p{Pf}\"']*\s+|[。！？]+[\p{Pe}\p{Pf}]*")
# As in BERT: some pairs are shorter than possible, and half of the second segments follow the first.
SHORT_SHARE = 0.1
RANDOM_SHARE = 0.5


def sentence_ends(text: str) -> list[int]:
    """Return the end of each sentence of a text; the last is the end of the text.

    >>> sentence_ends("One. Two (2.) Three")
    [5, 14, 19]
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    return ends if ends and ends[-1] == len(text) else [*ends, len(text)]


def split_sentences(ids: Sequence[int], token_ends: Sequence[int], ends: Sequence[int]) -> list[Tokens]:
    """Split a document's tokens by sentence; sentences without tokens are left out.

    Args:
        token_ends: where each token ends in the text; some tokenizers include the space before it.
        ends: from `sentence_ends`.
    """
    bounds = np.searchsorted(np.asarray(token_ends, np.int64), ends, side="right")
    return [part for part in np.split(np.asarray(ids, np.int64), bounds) if len(part)]


def fill_blocks(sentences: Sequence[Tokens], room: int) -> Iterator[Tokens]:
    """Yield blocks of at most `room` tokens with as many whole sentences as fit; split longer sentences."""
    block: list[Tokens] = []
    length = 0
    for sentence in sentences:
        for start in range(0, len(sentence), room):
            part = sentence[start : start + room]
            if block and length + len(part) > room:
                yield np.concatenate(block)
                block, length = [], 0
            block.append(part)
            length += len(part)
    if block:
        yield np.concatenate(block)


def fill_pairs(
    documents: Sequence[Sequence[Tokens]], place: int, room: int, generator: np.random.Generator
) -> Iterator[tuple[Tokens, Tokens]]:
    """Yield pairs of segments of one document, as for BERT's next sentence prediction.

    A segment is a run of sentences. Half of the second segments come from another document; the sentences
    that would have followed then begin the next pair.

    Args:
        documents: documents to draw from, as lists of sentences.
        place: the index of the document among them.
    """
    sentences = documents[place]
    next_one = 0
    while next_one < len(sentences):
        target = int(generator.integers(2, room + 1)) if generator.random() < SHORT_SHARE else room
        chunk: list[Tokens] = []
        while next_one < len(sentences) and sum(map(len, chunk)) < target:
            chunk.append(sentences[next_one])
            next_one += 1
        first_end = int(generator.integers(1, len(chunk))) if len(chunk) > 1 else 1
        first, second = chunk[:first_end], chunk[first_end:]
        if len(documents) > 1 and (not second or generator.random() < RANDOM_SHARE):
            next_one -= len(second)
            number = int(generator.integers(len(documents) - 1))
            other = documents[number + (number >= place)]
            start = int(generator.integers(len(other)))
            second = _until(other[start:], target - sum(map(len, first)))
        if not second:  # a single sentence, and no other document
            if len(first[0]) < 2:
                continue
            second = [first[0][len(first[0]) // 2 :]]
            first = [first[0][: len(first[0]) // 2]]
        yield _truncate(np.concatenate(first), np.concatenate(second), room, generator)


def _until(sentences: Sequence[Tokens], length: int) -> list[Tokens]:
    """Take sentences until they are long enough, at least one."""
    taken: list[Tokens] = []
    for sentence in sentences:
        taken.append(sentence)
        if sum(map(len, taken)) >= length:
            break
    return taken


def _truncate(
    first: Tokens, second: Tokens, room: int, generator: np.random.Generator
) -> tuple[Tokens, Tokens]:
    """Remove tokens from the front or end of the longer segment until both fit."""
    while len(first) + len(second) > room:
        front = bool(generator.random() < 0.5)
        if len(first) > len(second):
            first = first[1:] if front else first[:-1]
        else:
            second = second[1:] if front else second[:-1]
    return first, second
