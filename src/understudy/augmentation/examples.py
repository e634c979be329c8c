"""The texts of a row that may change, and the results of changing them.

The kind determines which texts these are: see `sides` and `change` of `understudy.data.kind.Kind`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from understudy.augmentation.replace import Place, Variant
from understudy.augmentation.words import Span, find_words, put_words


@dataclass(frozen=True)
class Side:
    """A text of a row, and the places in it that may change.

    Attributes:
        name: its column; `choices.2` is the third choice.
    """

    name: str
    text: str
    places: tuple[Place, ...]


def plain_side(name: str, text: str, stop_words: frozenset[str], taken: Sequence[Span] = ()) -> Side:
    """Return a text whose words may change, except those in the `taken` spans."""
    free = [
        span
        for span in find_words(text, stop_words)
        if all(span[1] <= start or span[0] >= stop for start, stop in taken)
    ]
    return Side(name, text, tuple(Place(span) for span in free))


def change_text(side: Side, variant: Variant) -> str:
    """Return the text of a side with a variant's replacements."""
    return put_words(side.text, [(one.span, one.new) for one in variant])


def moved_by(variant: Variant, place: int) -> int:
    """Return how far the replacements before a place move it."""
    return sum(len(one.new) - len(one.old) for one in variant if one.span[1] <= place)


def word_starts(words: Sequence[str]) -> list[int]:
    """Return where each word starts when the words are joined by spaces."""
    starts, start = [], 0
    for word in words:
        starts.append(start)
        start += len(word) + 1
    return starts


def replace_words(words: Sequence[str], tags: Sequence[str], variant: Variant) -> tuple[list[str], list[str]]:
    """Return words and tags with replacements; a longer replacement brings tags for its additional words."""
    new = {one.span[0]: one for one in variant}
    made_words: list[str] = []
    made_tags: list[str] = []
    end = 0
    for word, start, tag in zip(words, word_starts(words), tags, strict=True):
        if start < end:  # the rest of a replaced entity
            continue
        one = new.get(start)
        if one is None:
            made_words.append(word)
            made_tags.append(tag)
            continue
        end = one.span[1]
        parts = one.new.split(" ")
        made_words += parts
        made_tags += [tag, *[f"I-{tag[2:]}"] * (len(parts) - 1)]
    return made_words, made_tags
