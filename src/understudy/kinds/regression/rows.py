"""Rows of regression: a text or a pair, with a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from understudy.data.kind import Logits, Prediction, Reading, Row
from understudy.kinds.texts import TextRows, check_number


class RegressionRows(TextRows):
    """One number for each text or pair."""

    name = "regression"
    metrics = ("pearson", "spearman")
    has_classes = False

    def check(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Row:
        return {**self.check_texts(values), "label": check_number(values["label"])}

    def decode(
        self, reading: Reading, logits: Logits, labels: Sequence[str], *, unanswerable: bool
    ) -> Prediction:
        return {"score": float(logits[0][0].reshape(-1)[0])}

    def show(self, prediction: Prediction) -> str:
        return f"{prediction['score']:.3f}"


ROWS = RegressionRows()
