"""Rows of classification: a text or a pair, with its class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from understudy.data.decode import softmax
from understudy.data.kind import Logits, Prediction, Reading, Row
from understudy.data.rows import is_clean, label_id, label_name
from understudy.kinds.texts import TextRows, order_names


class ClassificationRows(TextRows):
    """One class for each text or pair."""

    name = "classification"
    has_named_labels = True
    metrics = ("accuracy", "macro_f1")

    def check(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Row:
        return {**self.check_texts(values), "label": label_id(values["label"], ids or {})}

    def label_names(self, value: Any) -> Iterable[str]:
        name = label_name(value)
        return [name] if is_clean(name) else []  # others are reported with their rows

    def order_labels(self, found: Iterable[str]) -> tuple[str, ...]:
        return order_names(found)

    def decode(
        self, reading: Reading, logits: Logits, labels: Sequence[str], *, unanswerable: bool
    ) -> Prediction:
        probabilities = softmax(logits[0][0])
        best = int(probabilities.argmax())
        return {
            "label": labels[best],
            "score": float(probabilities[best]),
            "probabilities": dict(zip(labels, probabilities.tolist(), strict=True)),
        }

    def show(self, prediction: Prediction) -> str:
        return f"{prediction['label']}\t{prediction['score']:.3f}"


ROWS = ClassificationRows()
