"""Losses on predictions, by task kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from understudy.capture.representations import Representations
from understudy.data.encode import IGNORED_LABEL
from understudy.data.tasks import KindName
from understudy.objectives.patient import label_loss, soft_label_loss
from understudy.objectives.tinybert import (
    prediction_loss,
    regression_prediction_loss,
    span_prediction_loss,
    token_prediction_loss,
)

# B batch, L tokens, C classes or choices

_SPANS = (("start_logits", "start_positions"), ("end_logits", "end_positions"))


@dataclass(frozen=True)
class KindLosses:
    """The losses of a task kind."""

    kind: KindName

    def prediction_losses(
        self,
        student: Representations,
        teacher: Representations,
        batch: Mapping[str, Tensor],
        *,
        temperature: float,
        padded: bool,
    ) -> dict[str, Tensor]:
        """TinyBERT Eq. 10 as a task's kind has it: `predictions`, or `starts` and `ends`, each half."""
        soft: dict[str, Any] = {"temperature": temperature, "padded": padded}
        mask_BL = batch["attention_mask"]
        if self.kind == "question-answering":
            return {
                name: 0.5 * span_prediction_loss(student.logits[key], teacher.logits[key], mask_BL, **soft)
                for name, key in (("starts", "start_logits"), ("ends", "end_logits"))
            }
        ours, theirs = student.logits["logits"], teacher.logits["logits"]
        if self.kind == "regression":
            return {"predictions": regression_prediction_loss(ours[:, 0], theirs[:, 0])}
        if self.kind == "token-classification":
            return {"predictions": token_prediction_loss(ours, theirs, mask_BL, **soft)}
        return {"predictions": prediction_loss(ours, theirs, **soft)}

    def label_loss(self, student: Representations, batch: Mapping[str, Tensor]) -> Tensor:
        """The loss against the labels, by example, as transformers' heads have it on a batch."""
        if self.kind == "question-answering":
            real_BL = batch["attention_mask"] > 0
            losses = [
                label_loss(_only_real(student.logits[key], real_BL), batch[label]) for key, label in _SPANS
            ]
            return torch.stack(losses).mean(dim=0)
        logits = student.logits["logits"].float()
        labels = batch["labels"]
        if self.kind == "regression":
            return (logits[:, 0] - labels.float()).square()
        if self.kind == "token-classification":
            loss_BL = nn.functional.cross_entropy(
                logits.transpose(1, 2), labels, reduction="none", ignore_index=IGNORED_LABEL
            )
            return loss_BL.sum(dim=1) / (labels != IGNORED_LABEL).sum(dim=1).clamp(min=1)
        return label_loss(logits, labels)

    def soft_label_loss(
        self,
        student: Representations,
        teacher: Representations,
        batch: Mapping[str, Tensor],
        *,
        temperature: float,
        squared: bool,
    ) -> Tensor:
        """The loss against a teacher's predictions, by example."""
        factor = temperature**2 if squared else 1.0
        mask_BL = batch["attention_mask"]
        if self.kind == "question-answering":
            losses = [
                span_prediction_loss(
                    student.logits[key], teacher.logits[key], mask_BL, temperature=temperature
                )
                for key, _ in _SPANS
            ]
            return factor * torch.stack(losses).mean(dim=0)
        ours, theirs = student.logits["logits"], teacher.logits["logits"]
        if self.kind == "regression":
            return regression_prediction_loss(ours[:, 0], theirs[:, 0])
        if self.kind == "token-classification":
            return factor * token_prediction_loss(ours, theirs, mask_BL, temperature=temperature)
        return soft_label_loss(ours, theirs, temperature=temperature, squared=squared)


def get_kind(name: KindName) -> KindLosses:
    """A task kind by its name."""
    return KindLosses(name)


def _only_real(logits_BL: Tensor, real_BL: Tensor) -> Tensor:
    return torch.where(real_BL, logits_BL.float(), torch.finfo(torch.float32).min)
