"""Training for classification: cross entropy with labels and with a teacher's predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray

from understudy.kinds.class_losses import ClassLosses
from understudy.kinds.classification.rows import ClassificationRows
from understudy.kinds.text_learning import TextKind


class Classification(ClassificationRows, ClassLosses, TextKind):
    """One class for each text or pair."""

    picture = "confusion"

    def check_head(self, config: Any) -> str | None:
        if config.problem_type != "multi_label_classification":
            return None
        return "it gives several labels for a text (its problem_type is multi_label_classification)"

    def best_guess(self, rows: Dataset) -> float | None:
        counts = np.bincount(rows["label"][:])
        return float(counts.max() / counts.sum())

    def prediction_groups(self, logits: tuple[NDArray[Any], ...]) -> NDArray[np.int64] | None:
        """Return the predicted classes."""
        classes: NDArray[np.int64] = logits[0].argmax(axis=1)
        return classes


KIND = Classification()
