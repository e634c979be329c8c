"""Sentences of a corpus."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import regex

from understudy.data.blocks import sentence_ends

_WORD = regex.compile(r"[\p{L}\p{N}]+")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a document, and the one that follows it (empty if there is none to use)."""

    text: str
    following: str


def fingerprint(text: str) -> bytes:
    """Hash the words of a text; case, spaces and punctuation do not matter.

    >>> fingerprint("It's  good.") == fingerprint("it s GOOD")
    True
    """
    words = " ".join(_WORD.findall(text.lower()))
    return hashlib.blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def length_range(texts: Iterable[str]) -> tuple[int, int]:
    """Return the lower and upper bounds, in characters, between which 98 % of the texts are."""
    lengths = [len(text) for text in texts]
    low, high = np.percentile(lengths, [1, 99])
    return int(low), int(np.ceil(high))


def document_sentences(
    documents: Iterable[str | None], lengths: tuple[int, int], excluded: Collection[bytes]
) -> Iterator[Sentence]:
    """Yield the sentences in a range of lengths, each text once.

    Args:
        excluded: fingerprints of texts to leave out, also as following sentences.
    """

    def fits(text: str) -> bool:
        return lengths[0] <= len(text) <= lengths[1] and "\x00" not in text

    seen: set[bytes] = set()
    for document in documents:
        for paragraph in (document or "").split("\n"):
            sentences = _split(paragraph)
            for place, text in enumerate(sentences):
                if not fits(text):
                    continue
                key = fingerprint(text)
                if key in seen or key in excluded:
                    continue
                seen.add(key)
                following = sentences[place + 1] if place + 1 < len(sentences) else ""
                is_usable = fits(following) and fingerprint(following) not in excluded
                yield Sentence(text, following if is_usable else "")


def _split(paragraph: str) -> Sequence[str]:
    start, sentences = 0, []
    for end in sentence_ends(paragraph):
        sentence = paragraph[start:end].strip()
        if sentence:
            sentences.append(sentence)
        start = end
    return sentences
