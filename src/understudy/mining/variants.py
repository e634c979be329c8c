"""Augmented sentences: a sentence with some of its words replaced."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.augmentation.candidates import Candidates
from understudy.augmentation.examples import change_text, plain_side
from understudy.augmentation.replace import draw
from understudy.augmentation.run import Attempt, make_variants
from understudy.augmentation.settings import AugmentSettings
from understudy.augmentation.shards import load_masked_words
from understudy.augmentation.words import load_stop_words

_AT_A_TIME = 512


def augment_texts(texts: Sequence[str], settings: AugmentSettings, seed: int) -> list[str | None]:
    """Return one variant of each text by Algorithm 1; None where nothing was changed."""
    ask, stop_words = Candidates(load_masked_words(settings), None, {}), load_stop_words(settings.stop_words)
    result: list[str | None] = []
    for start in range(0, len(texts), _AT_A_TIME):
        attempts = []
        for number, text in enumerate(texts[start : start + _AT_A_TIME], start):
            side = plain_side("text", text, stop_words)
            attempts.append(Attempt({}, 0, side, draw(seed, number, 1, len(side.places))[0]))
        for attempt, variant in zip(attempts, make_variants(attempts, settings, ask), strict=True):
            result.append(change_text(attempt.side, variant) if variant else None)
    return result
