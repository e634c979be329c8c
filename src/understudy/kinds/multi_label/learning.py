"""Training for multi-label classification: binary cross entropy for every label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor, nn

from understudy.capture.representations import Representations
from understudy.data.decode import sigmoid
from understudy.data.task import Task
from understudy.evaluation.metrics import Metric, find_metric
from understudy.evaluation.outcomes import Predictions, places_of
from understudy.evaluation.thresholds import reliable_threshold
from understudy.kinds.multi_label.rows import THRESHOLD, MultiLabelRows
from understudy.kinds.text_learning import TextKind
from understudy.objectives.tinybert import multi_label_prediction_loss

_PROBLEM = "multi_label_classification"


class MultiLabel(MultiLabelRows, TextKind):
    """Any number of labels for each text or pair, including none."""

    classes_exclude = False

    def configure(self, config: Any, labels: Sequence[str] | None, teacher_config: Any | None = None) -> None:
        super().configure(config, labels)
        config.problem_type = _PROBLEM  # makes transformers' loss and pipeline treat labels independently

    def check_head(self, config: Any) -> str | None:
        if config.problem_type in (None, _PROBLEM):
            return None
        return f"its problem_type is {config.problem_type}, and several labels for a text need {_PROBLEM}"

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
        return {"predictions": multi_label_prediction_loss(*sides, temperature=temperature)}

    def label_loss(self, student: Representations, batch: Mapping[str, Tensor]) -> Tensor:
        logits_BC, labels_BC = student.logits["logits"].float(), batch["labels"].float()
        loss_BC = nn.functional.binary_cross_entropy_with_logits(logits_BC, labels_BC, reduction="none")
        return loss_BC.mean(dim=1)

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
        loss_B = multi_label_prediction_loss(*sides, temperature=temperature)
        return (temperature**2 if squared else 1.0) * loss_B

    def judge(
        self, task: Task, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> Predictions:
        """Predict labels from a probability of 0.5: thresholds chosen on a split would inflate its score."""
        given_NC = sigmoid(logits[0])[places_of(rows, encoded)] >= THRESHOLD
        values = [np.flatnonzero(given).tolist() for given in given_NC]
        outcomes = np.concatenate([given_NC, _gold(rows)], axis=1).astype(np.float64)
        return Predictions(values, outcomes, {})

    def choose_thresholds(
        self, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> dict[str, float] | None:
        probabilities_NC, gold_NC = sigmoid(logits[0])[places_of(rows, encoded)], _gold(rows)
        names: Sequence[str] = rows.features["label"].feature.names
        return {
            name: reliable_threshold(probabilities_NC[:, place], gold_NC[:, place], usual=THRESHOLD)
            for place, name in enumerate(names)
        }

    def decisions(
        self, rows: Dataset, encoded: Dataset, logits: tuple[NDArray[Any], ...]
    ) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
        """Return a decision for each label of each row: against the label (0) or for it (1)."""
        logits_NC = logits[0][places_of(rows, encoded)]
        against_and_for = np.stack([np.zeros(logits_NC.size), logits_NC.ravel()], axis=1)
        return against_and_for, _gold(rows).ravel().astype(np.int64)

    def metric(self, name: str) -> Metric:
        return find_metric(name, of="label sets")

    def prediction_groups(self, logits: tuple[NDArray[Any], ...]) -> NDArray[np.int64] | None:
        """Return the most probable label of each row."""
        labels: NDArray[np.int64] = logits[0].argmax(axis=1)
        return labels


def _gold(rows: Dataset) -> NDArray[np.bool_]:
    """Return whether each row has each label."""
    gold_NC = np.zeros((len(rows), len(rows.features["label"].feature.names)), dtype=bool)
    for place, found in enumerate(rows["label"]):
        gold_NC[place, found] = True
    return gold_NC


KIND = MultiLabel()
