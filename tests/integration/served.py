"""Rows for every kind of artifact, to ask a Predictor, a server and a page."""

from __future__ import annotations

import random
from typing import Any

from understudy.predictor import Predictor


def example_rows(predict: Predictor, count: int = 12) -> list[dict[str, Any]]:
    """Rows with the fields of a model: words of its vocabulary, of many lengths, and some odd ones."""
    words = ["good", "bad", "great", "awful", "film", "the", "cat", "dog", "red", "it", "was", "very"]
    generator = random.Random(0)

    def text() -> str:
        return " ".join(generator.choices(words, k=generator.randint(1, 40)))

    rows = [
        {
            name: [text() for _ in range(3)] if name in predict.kind.list_fields else text()
            for name in predict.artifact.fields
        }
        for _ in range(count)
    ]
    first = predict.artifact.fields[0]
    if first not in predict.kind.list_fields:
        rows[1][first] = 'snowman ☃ and 𝄞, a "quote", <b>, a\ttab'
        rows[2][first] = "good " * 500
    return rows
