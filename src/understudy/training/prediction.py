"""Prediction layer distillation: a student's losses against logits its teacher left in the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from understudy.data.encode import TEACHER
from understudy.data.tasks import KindName
from understudy.objectives.tinybert import (
    prediction_loss,
    regression_prediction_loss,
    span_prediction_loss,
    token_prediction_loss,
)
from understudy.training.trainer import Terms

# B batch, L tokens, C classes


def prediction_terms(kind: KindName, *, temperature: float = 1.0, padded: bool = False) -> Terms:
    """TinyBERT Eq. 10 as a task's kind has it: `predictions`, or `starts` and `ends`."""
    soft: dict[str, Any] = {"temperature": temperature, "padded": padded}

    def terms(model: nn.Module, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        mask_BL = batch["attention_mask"]
        inputs = {
            name: value
            for name, value in batch.items()
            if name not in _LABELS and not name.startswith(TEACHER)
        }
        output = model(**inputs)
        if kind == "question-answering":
            return {
                name: 0.5 * span_prediction_loss(output[key], batch[TEACHER + key], mask_BL, **soft)
                for name, key in (("starts", "start_logits"), ("ends", "end_logits"))
            }
        student, teacher = output["logits"], batch[TEACHER + "logits"]
        if kind == "regression":
            return {"predictions": regression_prediction_loss(student[:, 0], teacher[:, 0])}
        if kind == "token-classification":
            return {"predictions": token_prediction_loss(student, teacher, mask_BL, **soft)}
        return {"predictions": prediction_loss(student, teacher, **soft)}

    return terms


_LABELS = ("labels", "start_positions", "end_positions")
