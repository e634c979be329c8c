"""Learning from a teacher's answers: losses against logits and states that lie in the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from understudy.data.encode import IGNORED_LABEL, TEACHER, TEACHER_STATES
from understudy.data.tasks import KindName
from understudy.models.projections import Projections
from understudy.objectives.patient import label_loss, patient_loss, soft_label_loss
from understudy.objectives.tinybert import (
    prediction_loss,
    regression_prediction_loss,
    span_prediction_loss,
    token_prediction_loss,
)
from understudy.training.trainer import Terms

# B batch, L tokens, C classes or choices, H hidden size, K layers

_LABELS = ("labels", "start_positions", "end_positions")
_SPANS = (("start_logits", "start_positions"), ("end_logits", "end_positions"))


def prediction_terms(kind: KindName, *, temperature: float = 1.0, padded: bool = False) -> Terms:
    """TinyBERT Eq. 10 as a task's kind has it: `predictions`, or `starts` and `ends`, each half."""
    soft: dict[str, Any] = {"temperature": temperature, "padded": padded}

    def terms(model: nn.Module, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        mask_BL = batch["attention_mask"]
        output = model(**_inputs(batch))
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


def patient_terms(
    kind: KindName,
    *,
    temperature: float,
    squared: bool = True,
    student_layers: Sequence[int] = (),
    normalized: bool = True,
) -> Terms:
    """Patient KD: `labels` (L_CE), `soft_labels` (L_DS), and `patient_1`, … (L_PT) of the given layers.

    A question's choices are texts of their own in L_PT. Where a prediction is a number, both of the first
    two are squared errors.

    Args:
        student_layers: counted from 1, each beside the teacher's state at the same place of the batch.
    """

    def terms(model: nn.Module, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        options = {"output_hidden_states": True} if student_layers else {}
        output = model(**_inputs(batch), **options)
        losses = {
            "labels": _label_loss(kind, output, batch),
            "soft_labels": _soft_label_loss(kind, output, batch, temperature, squared),
        }
        if student_layers:
            teacher = batch[TEACHER_STATES]  # BKH, or BCKH
            for place, layer in enumerate(student_layers):
                state = output["hidden_states"][layer][:, 0]
                taught = teacher[..., place, :].flatten(0, -2)
                loss = patient_loss(state, taught, normalized=normalized)
                losses[f"patient_{layer}"] = loss.view(len(teacher), -1).mean(dim=1)
        return losses

    return terms


class PatientStudent(nn.Module):
    """A student of another width than its teacher, with projections of its first token's states.

    It answers as the student does; only the hidden states it shows are projected, and of the first token
    alone.
    """

    def __init__(
        self, student: PreTrainedModel, projections: Projections, student_layers: Sequence[int]
    ) -> None:
        super().__init__()
        self.student = student
        self.projections = projections
        self.student_layers = tuple(student_layers)

    def forward(self, **inputs: Any) -> Any:
        """The student's output, with projected states where they are asked for."""
        output = self.student(**inputs)
        if inputs.get("output_hidden_states"):
            states = list(output.hidden_states)
            chosen = self.projections([states[layer][:, :1] for layer in self.student_layers])
            for layer, state in zip(self.student_layers, chosen, strict=True):
                states[layer] = state
            output["hidden_states"] = tuple(states)
        return output


def _inputs(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: value for name, value in batch.items() if name not in _LABELS and not name.startswith(TEACHER)
    }


def _label_loss(kind: KindName, output: Any, batch: Mapping[str, Tensor]) -> Tensor:
    """The loss against the labels, by example, as transformers' heads have it on a batch."""
    if kind == "question-answering":
        real_BL = batch["attention_mask"] > 0
        losses = [label_loss(_only_real(output[key], real_BL), batch[label]) for key, label in _SPANS]
        return torch.stack(losses).mean(dim=0)
    student: Tensor = output["logits"].float()
    labels = batch["labels"]
    if kind == "regression":
        return (student[:, 0] - labels.float()).square()
    if kind == "token-classification":
        loss_BL = nn.functional.cross_entropy(
            student.transpose(1, 2), labels, reduction="none", ignore_index=IGNORED_LABEL
        )
        return loss_BL.sum(dim=1) / (labels != IGNORED_LABEL).sum(dim=1).clamp(min=1)
    return label_loss(student, labels)


def _soft_label_loss(
    kind: KindName, output: Any, batch: Mapping[str, Tensor], temperature: float, squared: bool
) -> Tensor:
    factor = temperature**2 if squared else 1.0
    mask_BL = batch["attention_mask"]
    if kind == "question-answering":
        losses = [
            span_prediction_loss(output[key], batch[TEACHER + key], mask_BL, temperature=temperature)
            for key, _ in _SPANS
        ]
        return factor * torch.stack(losses).mean(dim=0)
    student, teacher = output["logits"], batch[TEACHER + "logits"]
    if kind == "regression":
        return regression_prediction_loss(student[:, 0], teacher[:, 0])
    if kind == "token-classification":
        return factor * token_prediction_loss(student, teacher, mask_BL, temperature=temperature)
    return soft_label_loss(student, teacher, temperature=temperature, squared=squared)


def _only_real(logits_BL: Tensor, real_BL: Tensor) -> Tensor:
    return torch.where(real_BL, logits_BL.float(), torch.finfo(torch.float32).min)
