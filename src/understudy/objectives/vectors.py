"""The prediction losses of embeddings."""

from __future__ import annotations

from torch import Tensor, nn

# B batch, D width of a vector


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


def similarity_loss(student_BD: Tensor, teacher_BD: Tensor) -> Tensor:
    """TinyBERT Eq. 10 for vectors, by pairs: mean_j (cos(s_i, s_j) − cos(t_i, t_j))² over the other texts j.

    One value for each text i; 0 for a single text. The other texts are those of the same batch, so unlike all
    other losses, this one depends on how rows are put into batches.
    """
    own, told = (nn.functional.normalize(side.float(), dim=-1) for side in (student_BD, teacher_BD.detach()))
    difference_BB = own @ own.T - told @ told.T
    others = max(1, len(own) - 1)
    return (difference_BB.square().sum(dim=1) - difference_BB.diagonal().square()) / others
