"""Rows made from the sentences that were found: texts, or pairs in a given mix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.mining.found import Found
from understudy.mining.sentences import fingerprint

Vary = Callable[[Sequence[str]], Sequence[str | None]]
"""A function that augments texts; None where nothing can be changed."""


def single_rows(found: Sequence[Sequence[Found]], field: str) -> list[dict[str, Any]]:
    """Return a row for each distinct sentence, closest first."""
    distinct: dict[bytes, Found] = {}
    for one in _closest_first(found):
        distinct.setdefault(fingerprint(one.text), one)
    return [{field: one.text, "similarity": one.similarity} for one in distinct.values()]


def pair_rows(
    found: Sequence[Sequence[Found]],
    fields: tuple[str, str],
    shares: Mapping[str, float],
    seed: int,
    vary: Vary | None,
) -> list[dict[str, Any]]:
    """Pair each sentence with a partner of a randomly drawn sort, and return the rows, closest first.

    A sentence takes the place of the text that it was found for, and its partner takes the other. A sentence
    without a partner of the drawn sort gets a random one.

    Args:
        found: for each row of the task the sentences of its first text, and then those of its second.
        shares: how often each sort of partner is drawn; they sum to 1.
        vary: augments texts; needed for `augmented` pairs.
    """
    generator = np.random.default_rng(seed)
    ordered, sorts = _closest_first(found), list(shares)
    drawn = [sorts[number] for number in generator.choice(len(sorts), len(ordered), p=list(shares.values()))]
    to_vary = [one.text for one, sort in zip(ordered, drawn, strict=True) if sort == "augmented"]
    varied = iter(vary(to_vary) if vary is not None else [None] * len(to_vary))
    sides = [[one for one in ordered if one.query % 2 == side] or ordered for side in (0, 1)]
    used: Counter[int] = Counter()
    rows, seen = [], set()
    for one, sort in zip(ordered, drawn, strict=True):
        side, partner = one.query % 2, ""
        if sort == "neighbours" and found[one.query ^ 1]:
            others = found[one.query ^ 1]
            # The second side starts one further, or both sides would make the same pairs.
            partner = others[(used[one.query] + side) % len(others)].text
            used[one.query] += 1
        elif sort == "adjacent":
            partner = one.following
        elif sort == "augmented":
            partner = next(varied) or ""
        if partner in ("", one.text):
            sort, others = "random", sides[1 - side]
            start = int(generator.integers(len(others)))
            others = [*others[start : start + 2], *others[:2]]  # the next one, if that is the sentence itself
            partner = next((other.text for other in others if other.text != one.text), "")
        texts = (one.text, partner) if side == 0 else (partner, one.text)
        if partner and texts not in seen:
            seen.add(texts)
            rows.append({**dict(zip(fields, texts, strict=True)), "similarity": one.similarity, "pair": sort})
    return rows


def _closest_first(found: Sequence[Sequence[Found]]) -> list[Found]:
    return sorted((one for sentences in found for one in sentences), key=lambda one: -one.similarity)


def balanced_places(groups: NDArray[np.int64] | None, num_rows: int, count: int) -> NDArray[np.int64]:
    """Return the places of the rows to keep: the first ones, with at most an equal share for each group.

    The share is that of `count`, or of all rows if there are fewer.

    >>> balanced_places(np.array([0, 0, 0, 1, 0, 0]), num_rows=6, count=100).tolist()
    [0, 1, 2, 3]
    """
    if groups is None:
        return np.arange(min(num_rows, count))
    names = np.unique(groups)
    share = -(-min(count, num_rows) // len(names))
    kept = np.concatenate([np.flatnonzero(groups == name)[:share] for name in names])
    return np.sort(kept)[:count]
