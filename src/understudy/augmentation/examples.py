"""Texts of a row that may change, and the texts and words that a change gives.

Which texts those are is the kind's to say: see `sides` and `change` of `understudy.data.kind.Kind`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from understudy.augmentation.replace import Place, Variant
from understudy.augmentation.words import Span, find_words, put_words


@dataclass(frozen=True)
class Side:
    """A text of a row, and its places that may change.

    Attributes:
        name: its column; `choices.2` is the third choice.
    """

    name: str
    text: str
    places: tuple[Place, ...]


def plain_side(name: str, text: str, stop_words: frozenset[str], taken: Sequence[Span] = ()) -> Side:
    """A text whose words may change, but for those in the spans that are taken."""
    free = [
        span
        for span in find_words(text, stop_words)
        if all(span[1] <= start or span[0] >= stop for start, stop in taken)
    ]
    return Side(name, text, tuple(Place(span) for span in free))


def change_text(side: Side, variant: Variant) -> str:
    """The text of a side with a variant's replacements."""
    return put_words(side.text, [(one.span, one.new) for one in variant])


def moved_by(variant: Variant, place: int) -> int:
    """How far replacements before a place move it."""
    return sum(len(one.new) - len(one.old) for one in variant if one.span[1] <= place)


def word_starts(words: Sequence[str]) -> list[int]:
    """Where each word starts in the words joined by spaces."""
    starts, start = [], 0
    for word in words:
        starts.append(start)
        start += len(word) + 1
    return starts


def replace_words(words: Sequence[str], tags: Sequence[str], variant: Variant) -> tuple[list[str], list[str]]:
    """Words and tags with replacements; what has more words than before brings tags for them."""
    new = {one.span[0]: one for one in variant}
    made_words: list[str] = []
    made_tags: list[str] = []
    end = 0
    for word, start, tag in zip(words, word_starts(words), tags, strict=True):
        if start < end:  # the rest of an entity that was replaced
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
