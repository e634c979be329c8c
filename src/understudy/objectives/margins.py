"""The prediction losses of rankings."""

from __future__ import annotations

from torch import Tensor

# B queries, P passages of each


def margin_loss(student_BP: Tensor, teacher_BP: Tensor) -> Tensor:
    """MarginMSE (Hofstätter et al. 2020, Eq. 5): squared error of the margins between passages of a query.

    The margin of two passages is the difference of their scores. With more than two passages, it is the mean
    over those after the first, each compared with the first.
    """
    if student_BP.shape != teacher_BP.shape or student_BP.shape[-1] < 2:
        raise ValueError(
            "student and teacher must have scores of the same passages, two or more, got the shapes "
            f"{tuple(student_BP.shape)} and {tuple(teacher_BP.shape)}"
        )
    student, teacher = (side.float() for side in (student_BP, teacher_BP.detach()))
    margins = [side[:, :1] - side[:, 1:] for side in (student, teacher)]
    return (margins[0] - margins[1]).square().mean(dim=-1)
