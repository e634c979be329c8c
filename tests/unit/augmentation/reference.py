"""TinyBERT's Algorithm 1 as slowly and plainly as it can be written, to compare with."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

Offer = Callable[[list[str], int], Sequence[str]]
"""Words of a text and a place among them to the candidates for it."""


def split(text: str) -> list[str]:
    """Words and what stands between them, so that joining gives the text again."""
    return re.findall(r"\w+(?:['’-]\w+)*|\W", text)


def may_be_replaced(part: str, stop_words: frozenset[str]) -> bool:
    return part.isalpha() and len(part) > 1 and part.lower() not in stop_words


def augment(
    text: str,
    offer: Offer,
    stream: np.ndarray,
    *,
    probability: float,
    num_variants: int,
    stop_words: frozenset[str],
    sequential: bool,
) -> list[str]:
    """D′ of Algorithm 1: all variants, unchanged and repeated ones too."""
    x = split(text)
    augmented = []
    for n in range(num_variants):
        x_m = list(x)
        place = 0
        for i in range(len(x)):
            if not may_be_replaced(x[i], stop_words):
                continue
            candidates = offer(x_m if sequential else x, i)
            p, choice = stream[n, place]
            place += 1
            if p <= probability and candidates:
                new = candidates[int(choice * len(candidates))]
                if new.islower():
                    new = new.upper() if x[i].isupper() else new.capitalize() if x[i][0].isupper() else new
                x_m[i] = new
        augmented.append("".join(x_m))
    return augmented
