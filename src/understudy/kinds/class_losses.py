"""The losses of kinds that choose one of several classes: classification and multiple choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor

from understudy.capture.representations import Representations
from understudy.data.kind import Kind
from understudy.evaluation.outcomes import places_of
from understudy.objectives.patient import label_loss, soft_label_loss
from understudy.objectives.tinybert import prediction_loss


class ClassLosses(Kind):
    """Cross entropy with the labels and with a teacher's predictions, over the logits of a row."""

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

    def decisions(
        self, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
        return logits[0][places_of(rows, encoded)], np.asarray(rows["label"][:])

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
