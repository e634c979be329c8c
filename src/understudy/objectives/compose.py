"""The complete objectives of TinyBERT and Patient KD: named terms and their weighted sum."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from understudy.capture.representations import Representations
from understudy.objectives.tinybert import attention_loss, embedding_loss, hidden_loss

# B batch, L tokens


def layer_losses(
    student: Representations,
    teacher: Representations,
    mask_BL: Tensor,
    *,
    weights: Mapping[str, float],
    relation_heads: int | None = None,
    padded: bool = False,
) -> dict[str, Tensor]:
    """TinyBERT Eq. 11 for the layers below the prediction: the terms by name, loss_B each.

    `embeddings` for m = 0, then `attention_1`, `hidden_1`, … for the student's layers, each compared with the
    teacher's layer at the same place of `teacher`. A term of weight 0 is not computed.

    Args:
        student: with hidden states projected to the teacher's width.
        weights: see `weighted_sum`.
    """
    terms: dict[str, Tensor] = {}
    if weight_of("embeddings", weights):
        assert student.embeddings_BLH is not None
        assert teacher.embeddings_BLH is not None
        terms["embeddings"] = embedding_loss(
            student.embeddings_BLH, teacher.embeddings_BLH, mask_BL, padded=padded
        )
    for layer, (student_qk, teacher_qk) in enumerate(
        zip(student.query_key, teacher.query_key, strict=True), start=1
    ):
        if weight_of(f"attention_{layer}", weights):
            terms[f"attention_{layer}"] = attention_loss(
                student_qk, teacher_qk, mask_BL, num_heads=relation_heads, padded=padded
            )
    for layer, (student_BLH, teacher_BLH) in enumerate(
        zip(student.hidden, teacher.hidden, strict=True), start=1
    ):
        if weight_of(f"hidden_{layer}", weights):
            terms[f"hidden_{layer}"] = hidden_loss(student_BLH, teacher_BLH, mask_BL, padded=padded)
    return terms


def weighted_sum(terms: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """TinyBERT Eq. 6: Σ λ · L over named terms, per example.

    Args:
        terms: loss_B each.
        weights: λ by a term's name (`attention_2`), otherwise by its kind (`attention`). Defaults to 1.

    >>> terms = {"hidden_1": torch.tensor([1.0]), "hidden_2": torch.tensor([2.0])}
    >>> weighted_sum(terms, {"hidden": 10.0, "hidden_2": 0.5})
    tensor([11.])
    """
    return torch.stack([weight_of(name, weights) * loss_B for name, loss_B in terms.items()]).sum(dim=0)


def weight_of(name: str, weights: Mapping[str, float]) -> float:
    """Return the weight of a term by its name, otherwise by its kind, otherwise 1."""
    kind = name.rstrip("0123456789").rstrip("_")
    return weights.get(name, weights.get(kind, 1.0))
