"""The prediction loss of embeddings."""

from __future__ import annotations

from torch import Tensor, nn

# D width of a vector


def vector_loss(student_D: Tensor, teacher_D: Tensor) -> Tensor:
    """TinyBERT Eq. 10 for vectors, which have no classes: 1 − cos(v_S, v_T) over the last dimension.

    That is half the squared error of vectors of length 1. Lengths do not count, as in a search by cosine.
    """
    if student_D.shape != teacher_D.shape:
        raise ValueError(
            f"student and teacher must have vectors of the same shape, got {tuple(student_D.shape)} and "
            f"{tuple(teacher_D.shape)}"
        )
    first, second = (
        nn.functional.normalize(side.float(), dim=-1) for side in (student_D, teacher_D.detach())
    )
    return (first - second).square().sum(dim=-1) / 2
