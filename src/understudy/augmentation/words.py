"""The words of a text that may be replaced, and the texts after replacing them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path

import regex

from understudy.errors import RecipeError

Span = tuple[int, int]
"""The start and end of a word in its text."""

# A word with its apostrophes and hyphens: `don't` is one word, but does not consist of letters alone.
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}_]+(?:['’\-][\p{L}\p{M}\p{N}_]+)*")
_LETTERS = regex.compile(r"\p{L}[\p{L}\p{M}]+")


def is_word(text: str) -> bool:
    """Return whether a text is one word of at least two letters.

    >>> is_word("café"), is_word("B2B"), is_word("don't"), is_word("x")
    (True, False, False, False)
    """
    return _LETTERS.fullmatch(text) is not None


def find_words(text: str, stop_words: frozenset[str]) -> list[Span]:
    """Return the spans of words that may be replaced: letters only, and not stop words.

    >>> find_words("The 2nd film isn't bad.", frozenset({"the"}))
    [(8, 12), (19, 22)]
    """
    return [
        match.span()
        for match in _WORD.finditer(text)
        if is_word(match.group()) and match.group().casefold() not in stop_words
    ]


def put_words(text: str, replacements: Sequence[tuple[Span, str]]) -> str:
    """Return the text with some words replaced, given in order; everything else is unchanged.

    >>> put_words("a  good film", [((3, 7), "bad")])
    'a  bad film'
    """
    parts, end = [], 0
    for (start, stop), word in replacements:
        parts += [text[end:start], word]
        end = stop
    return "".join([*parts, text[end:]])


def match_case(candidate: str, word: str) -> str:
    """Apply the case of a word to a lower-case candidate; one with its own capitals is unchanged.

    >>> match_case("rome", "Paris"), match_case("rome", "PARIS"), match_case("NATO", "paris")
    ('Rome', 'ROME', 'NATO')
    """
    if not candidate.islower():
        return candidate
    if word.isupper():
        return candidate.upper()
    return candidate[0].upper() + candidate[1:] if word[0].isupper() else candidate


@cache
def load_stop_words(name: str) -> frozenset[str]:
    """Load stop words: `english`, `none`, or a file with one word per line."""
    if name == "none":
        return frozenset()
    if name == "english":
        text = resources.files("understudy.augmentation").joinpath("stop_words.txt").read_text("utf-8")
    else:
        try:
            text = Path(name).expanduser().read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RecipeError(
                f"augment.stop_words must be english, none or a text file; {name} cannot be read: {error}"
            ) from None
    return frozenset(text.casefold().split())
