"""Intermediate layer distillation: what is trained, and its losses."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from understudy.capture.query_key import capture
from understudy.capture.representations import Representations
from understudy.data.encode import ENCODER_INPUTS
from understudy.models.projections import Projections
from understudy.objectives.compose import layer_losses
from understudy.training.trainer import Terms

# B batch, C choices, L tokens


class ProjectedStudent(nn.Module):
    """A student's encoder with its projections: what the optimiser, the checkpoint and DDP hold.

    The student is prepared for capture; its head takes no part.
    """

    def __init__(self, student: PreTrainedModel, projections: Projections, layers: Sequence[int]) -> None:
        super().__init__()
        self.student = student
        self.projections = projections
        self.layers = tuple(layers)
        self.names = encoder_inputs(student)

    def forward(self, **inputs: Tensor) -> Representations:
        """What the student shows on a batch, its states at the teacher's width."""
        shown = capture(self.student.base_model, _only(inputs, self.names), self.layers)
        return project(shown, self.projections)


def project(shown: Representations, projections: Projections) -> Representations:
    """A student's embeddings and hidden states at its teacher's width."""
    embeddings_BLT, *hidden = projections([shown.embeddings_BLH, *shown.hidden])
    return dataclasses.replace(shown, embeddings_BLH=embeddings_BLT, hidden=tuple(hidden))


def intermediate_terms(
    teacher: PreTrainedModel,
    teacher_layers: Sequence[int],
    *,
    weights: Mapping[str, float],
    relation_heads: int | None = None,
    padded: bool = False,
    precision: torch.dtype = torch.float32,
) -> Terms:
    """The losses of a `ProjectedStudent` against a frozen teacher that is prepared for capture.

    Args:
        teacher_layers: for the student's layers, in their order.
        precision: of the teacher's forward pass.
    """
    encoder = teacher.base_model
    names = encoder_inputs(teacher)

    def terms(model: nn.Module, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        # A question's choices are texts like any other here.
        num_choices = batch["input_ids"].shape[1] if batch["input_ids"].dim() == 3 else None
        inputs = {name: batch[name].flatten(0, -2) for name in batch if name in ENCODER_INPUTS}
        with torch.no_grad(), _autocast(inputs["input_ids"].device, precision):
            shown = capture(encoder, _only(inputs, names), teacher_layers)
        losses = layer_losses(
            model(**inputs),
            shown,
            inputs["attention_mask"],
            weights=weights,
            relation_heads=relation_heads,
            padded=padded,
        )
        if num_choices is not None:
            losses = {name: loss.view(-1, num_choices).mean(dim=1) for name, loss in losses.items()}
        return losses

    return terms


def encoder_inputs(model: PreTrainedModel) -> frozenset[str]:
    """What a model's encoder may be called with: DistilBERT knows no token types, for one."""
    return frozenset(inspect.signature(model.base_model.forward).parameters) & frozenset(ENCODER_INPUTS)


def _only(inputs: Mapping[str, Tensor], names: frozenset[str]) -> dict[str, Tensor]:
    return {name: value for name, value in inputs.items() if name in names}


def _autocast(device: torch.device, precision: torch.dtype) -> torch.autocast:
    return torch.autocast(device.type, dtype=precision, enabled=precision != torch.float32)
