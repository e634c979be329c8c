"""TinyBERT Algorithm 1 as pure functions, with random numbers as input."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.augmentation.words import Span, match_case, put_words

# V variants of a row, P places in it


@dataclass(frozen=True)
class Place:
    """A place that may be replaced: a word, or a whole entity of a type."""

    span: Span
    entity: str | None = None


@dataclass(frozen=True)
class Question:
    """A request for candidates to replace a span of a text."""

    text: str
    span: Span
    entity: str | None = None

    @property
    def word(self) -> str:
        return self.text[slice(*self.span)]


@dataclass(frozen=True)
class Replacement:
    """A place in the original text and its new content."""

    span: Span
    old: str
    new: str


Variant = list[Replacement]


def draw(seed: int, row: int, num_variants: int, num_places: int) -> NDArray[np.float64]:
    """Draw two uniform numbers for every place of every variant, depending only on the seed and the row.

    The first decides whether the place is replaced, the second selects the candidate.

    Returns:
        An array VP2.
    """
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, row])))
    return generator.random((num_variants, num_places, 2))


def vary(
    text: str,
    places: Sequence[Place],
    draws_P2: NDArray[np.float64],
    *,
    probability: float,
    sequential: bool,
) -> Generator[Question, Sequence[str], Variant]:
    """Generate one variant of a text with TinyBERT Algorithm 1 (lines 3 to 15).

    Yields a question only when candidates are needed; the algorithm does not use those of places that it
    leaves unchanged. A place without candidates is left unchanged too.

    Args:
        places: the places, in the order of the text.
        draws_P2: random numbers from `draw`.
        probability: p_t.
        sequential: whether each question contains the replacements before it, as the algorithm is written, or
            the original text.
    """
    variant: Variant = []
    shift = 0  # how much longer the text before a place has become
    for place, (first, second) in zip(places, draws_P2, strict=True):
        if first > probability:
            continue
        start, end = place.span
        if sequential:
            shown = put_words(text, [(one.span, one.new) for one in variant])
            candidates = yield Question(shown, (start + shift, end + shift), place.entity)
        else:
            candidates = yield Question(text, place.span, place.entity)
        if not candidates:
            continue
        old = text[start:end]
        chosen = candidates[int(second * len(candidates))]
        new = chosen if place.entity else match_case(chosen, old)
        variant.append(Replacement(place.span, old, new))
        shift += len(new) - len(old)
    return variant
