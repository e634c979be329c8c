"""Rows of regression: a text or a pair, with a number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from understudy.data.kind import Logits, Prediction, Reading, Row
from understudy.data.rows import BadRowError
from understudy.kinds.texts import TextRows


class RegressionRows(TextRows):
    """One number for each text or pair."""

    name = "regression"
    metrics = ("pearson", "spearman")
    has_classes = False

    def check(self, values: Mapping[str, Any], ids: Mapping[str, int] | None) -> Row:
        return {**self.check_texts(values), "label": _check_number(values["label"])}

    def decode(
        self, reading: Reading, logits: Logits, labels: Sequence[str], *, unanswerable: bool
    ) -> Prediction:
        return {"score": float(logits[0][0].reshape(-1)[0])}

    def show(self, prediction: Prediction) -> str:
        return f"{prediction['score']:.3f}"


def _check_number(value: Any) -> float:
    if value is None or value == "":
        raise BadRowError("null label", "the score is null")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise BadRowError("score is not a number", f"label must be a number, got {value!r}") from None
    if not math.isfinite(number):
        raise BadRowError("score is not finite", f"label must be a finite number, got {value!r}")
    return number


ROWS = RegressionRows()
