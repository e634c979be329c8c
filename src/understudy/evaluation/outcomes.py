"""Predictions of a split, and the outcome of each row that metrics read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray

from understudy.evaluation.metrics import Outcomes

Logits = tuple[NDArray[np.floating], ...]
"""The logits of a whole split: an array for each output of the model."""


@dataclass(frozen=True)
class Predictions:
    """A model's predictions for each row of a dataset, in the dataset's order.

    Attributes:
        values: label ids, scores, answer texts or lists of tags, by kind.
        outcomes: the predictions scored against the gold labels.
        details: figures besides the metrics (SQuAD 2.0: with and without answers, best threshold).
        vectors: the vector of each row's text, if the model makes vectors.
    """

    values: list[Any]
    outcomes: Outcomes
    details: dict[str, float]
    vectors: NDArray[np.floating] | None = None


def places_of(rows: Dataset, encoded: Dataset) -> NDArray[np.int64]:
    """Return the position of each row among the encoded ones, which may be in any order."""
    position = {row: index for index, row in enumerate(encoded["row"][:])}
    return np.array([position[row] for row in rows["row"][:]])


def no_answer_details(
    outcomes: Outcomes, margins: NDArray[np.float64], if_answered: NDArray[np.float64]
) -> dict[str, float]:
    """Return scores with and without answers, and the best threshold in hindsight, as in the 2.0 script."""
    answerable = outcomes[:, 2] == 1
    details = {}
    for name, chosen in (("has_answer", answerable), ("no_answer", ~answerable)):
        if chosen.any():
            details[f"{name}_exact_match"] = float(outcomes[chosen, 0].mean())
            details[f"{name}_f1"] = float(outcomes[chosen, 1].mean())
    # Raising the threshold past a margin answers that question instead of leaving it empty.
    order = np.argsort(margins, kind="stable")
    if_empty = (~answerable).astype(np.float64)
    for column, name in enumerate(("best_exact_match", "best_f1")):
        gains = (if_answered[:, column] - if_empty)[order]
        totals = if_empty.sum() + np.concatenate([[0.0], np.cumsum(gains)])
        best = int(totals.argmax())
        details[name] = float(totals[best] / len(outcomes))
        details[f"{name}_threshold"] = float(margins[order[best - 1]] if best else margins.min() - 1)
    return details
