"""Training for classification: cross entropy with labels and with a teacher's predictions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from datasets import Dataset
from torch import Tensor

from understudy.capture.representations import Representations
from understudy.kinds.classification.rows import ClassificationRows
from understudy.kinds.text_learning import TextKind
from understudy.objectives.patient import label_loss, soft_label_loss
from understudy.objectives.tinybert import prediction_loss


class Classification(ClassificationRows, TextKind):
    """One class for each text or pair."""

    picture = "confusion"

    def prediction_losses(
        self,
        student: Representations,
        teacher: Representations,
        batch: Mapping[str, Tensor],
        *,
        temperature: float,
        padded: bool,
    ) -> dict[str, Tensor]:
        sides = (side.logits["logits"] for side in (student, teacher))
        return {"predictions": prediction_loss(*sides, temperature=temperature, padded=padded)}

    def label_loss(self, student: Representations, batch: Mapping[str, Tensor]) -> Tensor:
        return label_loss(student.logits["logits"].float(), batch["labels"])

    def soft_label_loss(
        self,
        student: Representations,
        teacher: Representations,
        batch: Mapping[str, Tensor],
        *,
        temperature: float,
        squared: bool,
    ) -> Tensor:
        sides = (side.logits["logits"] for side in (student, teacher))
        return soft_label_loss(*sides, temperature=temperature, squared=squared)

    def best_guess(self, rows: Dataset) -> float | None:
        counts = np.bincount(rows["label"][:])
        return float(counts.max() / counts.sum())


KIND = Classification()
