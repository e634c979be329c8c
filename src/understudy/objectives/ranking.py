"""The losses of rankings."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# B queries, P passages of each


def margin_loss(student_BP: Tensor, teacher_BP: Tensor) -> Tensor:
    """MarginMSE (Hofstätter et al. 2020, Eq. 5): squared error of the margin between two passages of a query.

    The margin is the difference of their scores.
    """
    if student_BP.shape != teacher_BP.shape or student_BP.shape[-1] != 2:
        raise ValueError(
            f"student and teacher must have scores of the same two passages, got the shapes "
            f"{tuple(student_BP.shape)} and {tuple(teacher_BP.shape)}"
        )
    margins = [side[:, 0] - side[:, 1] for side in (student_BP.float(), teacher_BP.detach().float())]
    return (margins[0] - margins[1]).square()


def relevance_loss(logits_BP: Tensor, labels_B: Tensor) -> Tensor:
    """Cross entropy of relevance, one value per row.

    Args:
        labels_B: the relevance of the first passage; a grade above 1 counts as 1. Others are not relevant.
    """
    right_BP = torch.zeros_like(logits_BP, dtype=torch.float32)
    right_BP[:, 0] = labels_B.float().clamp(max=1)
    losses_BP = nn.functional.binary_cross_entropy_with_logits(logits_BP.float(), right_BP, reduction="none")
    return losses_BP.mean(dim=-1)
