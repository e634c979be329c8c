"""Training for regression: squared error to the label and to a teacher's score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from understudy.capture.representations import Representations
from understudy.kinds.regression.rows import RegressionRows
from understudy.kinds.text_learning import TextKind
from understudy.objectives.tinybert import regression_prediction_loss

_GROUPS = 5


class Regression(RegressionRows, TextKind):
    """One number for each text or pair."""

    has_agreement = False
    picture = "scatter"

    def configure(self, config: Any, labels: Sequence[str] | None, teacher_config: Any | None = None) -> None:
        config.num_labels = 1
        config.problem_type = "regression"

    def check_head(self, config: Any) -> str | None:
        if config.num_labels == 1:
            return None
        return f"it has a head of {config.num_labels} labels, and a number needs one output"

    def predict(self, logits_BC: NDArray[Any]) -> NDArray[Any]:
        return logits_BC.reshape(len(logits_BC), -1)[:, 0].astype(np.float64)

    def prediction_groups(self, logits: tuple[NDArray[Any], ...]) -> NDArray[np.int64] | None:
        """Return which fifth of the predictions' range each is in."""
        values = self.predict(logits[0])
        edges = np.linspace(values.min(), values.max(), _GROUPS + 1)[1:-1]
        groups: NDArray[np.int64] = np.digitize(values, edges)
        return groups

    def prediction_losses(
        self,
        student: Representations,
        teacher: Representations,
        batch: Mapping[str, Tensor],
        *,
        temperature: float,
        padded: bool,
    ) -> dict[str, Tensor]:
        return {"predictions": self._squared_error(student, teacher)}

    def label_loss(self, student: Representations, batch: Mapping[str, Tensor]) -> Tensor:
        return (student.logits["logits"].float()[:, 0] - batch["labels"].float()).square()

    def soft_label_loss(
        self,
        student: Representations,
        teacher: Representations,
        batch: Mapping[str, Tensor],
        *,
        temperature: float,
        squared: bool,
    ) -> Tensor:
        return self._squared_error(student, teacher)

    def _squared_error(self, student: Representations, teacher: Representations) -> Tensor:
        return regression_prediction_loss(*(side.logits["logits"][:, 0] for side in (student, teacher)))


KIND = Regression()
