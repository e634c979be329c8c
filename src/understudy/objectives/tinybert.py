"""TinyBERT's objectives (EMNLP paper, section 3.1), one loss per example.

Each function returns a vector with the loss of every example of the batch: the mean over that
example's own real tokens (Eqs. 8, 9) or pairs of real tokens (Eq. 7), as the paper's sum over x has
it. Padding, the order of a batch and its split into smaller ones change nothing, and a loss that is
not a number names its example. `padded=True` is the published code's mean, over padding too.

The teacher's tensors never receive a gradient.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from understudy.capture.representations import QueryKey

# B batch, N heads, L tokens, D head size, W width of all heads, H hidden size, C classes,
# S and T a student's and a teacher's


def attention_loss(
    student: QueryKey,
    teacher: QueryKey,
    mask_BL: Tensor,
    *,
    num_heads: int | None = None,
    padded: bool = False,
) -> Tensor:
    """TinyBERT Eq. 7: mean squared difference of unnormalised attention scores, by example.

    The difference of the scores is U Vᵀ with U = [Q_S, −Q_T] (scaled) and V = [K_S, K_T]. Its square
    is summed from the L×L matrix, or from ‖U Vᵀ‖² = Σ (UᵀU ∘ VᵀV), which is exact and linear in the
    length: whichever is cheaper.

    Args:
        mask_BL: 1 or True at real tokens.
        num_heads: relation heads that both sides are read as; where not given, their own number of
            heads, which must then be equal.
        padded: divide by the padded length squared, and count padded queries at real keys, as the
            published code does.

    Returns:
        loss_B.
    """
    left, right = _difference_factors(student, teacher, mask_BL, num_heads, padded)
    length, size = left.shape[-2:]
    # Multiplications: L²·D for the matrix, 2·L·D² for the linear form, D both sides' head size.
    total_B = _square_linear(left, right) if length > 2 * size else _square_matrix(left, right)
    if padded:
        return total_B / length**2
    return total_B / _num_tokens(mask_BL).square()


def _square_matrix(left_BNLD: Tensor, right_BNLD: Tensor) -> Tensor:
    """‖U Vᵀ‖² by example, mean over heads, from the matrix itself: for short inputs."""
    return (left_BNLD @ right_BNLD.transpose(-1, -2)).square().sum(dim=(-1, -2)).mean(dim=1)


def _square_linear(left_BNLD: Tensor, right_BNLD: Tensor) -> Tensor:
    """‖U Vᵀ‖² by example, mean over heads, from matrices of head size: for long inputs."""
    gram_left = left_BNLD.transpose(-1, -2) @ left_BNLD
    gram_right = right_BNLD.transpose(-1, -2) @ right_BNLD
    return (gram_left * gram_right).sum(dim=(-1, -2)).mean(dim=1)


def _difference_factors(
    student: QueryKey, teacher: QueryKey, mask_BL: Tensor, num_heads: int | None, padded: bool
) -> tuple[Tensor, Tensor]:
    """U and V, zero at padding: left out before anything is computed, it may hold anything."""
    heads = _common_heads(student, teacher, num_heads)
    student_query, student_key = _split_heads(student, heads)
    teacher_query, teacher_key = _split_heads(teacher, heads)
    left = torch.cat([student_query, -teacher_query.detach()], dim=-1)
    right = torch.cat([student_key, teacher_key.detach()], dim=-1)
    real = (mask_BL > 0)[:, None, :, None]
    return left if padded else torch.where(real, left, 0), torch.where(real, right, 0)


def hidden_loss(student_BLH: Tensor, teacher_BLH: Tensor, mask_BL: Tensor, *, padded: bool = False) -> Tensor:
    """TinyBERT Eq. 8: mean squared difference of hidden states, by example.

    Args:
        student_BLH: already projected by W_h where the widths differ.
        mask_BL: 1 or True at real tokens.
        padded: count padded positions too, as the published code does.

    Returns:
        loss_B.
    """
    if student_BLH.shape != teacher_BLH.shape:
        raise ValueError(
            f"student and teacher must have the same shape, got {tuple(student_BLH.shape)} and "
            f"{tuple(teacher_BLH.shape)}; project the student first"
        )
    difference = student_BLH.float() - teacher_BLH.detach().float()
    if padded:
        return difference.square().mean(dim=(1, 2))
    difference = torch.where((mask_BL > 0)[:, :, None], difference, 0)
    return difference.square().mean(dim=-1).sum(dim=1) / _num_tokens(mask_BL)


def embedding_loss(
    student_BLH: Tensor, teacher_BLH: Tensor, mask_BL: Tensor, *, padded: bool = False
) -> Tensor:
    """TinyBERT Eq. 9: as Eq. 8, of the embedding layer's output (after its LayerNorm)."""
    return hidden_loss(student_BLH, teacher_BLH, mask_BL, padded=padded)


def prediction_loss(
    student_BC: Tensor, teacher_BC: Tensor, *, temperature: float = 1.0, padded: bool = False
) -> Tensor:
    """TinyBERT Eq. 10: cross entropy of softened predictions, CE(z_T / t, z_S / t), by example.

    For question answering call it for starts and for ends and take the mean; positions outside the
    context have logits of −∞ on both sides or on none.

    Args:
        padded: divide by the number of classes as well, as the published code does.
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    if student_BC.shape != teacher_BC.shape:
        raise ValueError(
            f"student and teacher must have the same shape, got {tuple(student_BC.shape)} and "
            f"{tuple(teacher_BC.shape)}"
        )
    target_BC = nn.functional.softmax(teacher_BC.detach().float() / temperature, dim=-1)
    loss_B = nn.functional.cross_entropy(student_BC.float() / temperature, target_BC, reduction="none")
    return loss_B / student_BC.shape[-1] if padded else loss_B


def _common_heads(student: QueryKey, teacher: QueryKey, num_heads: int | None) -> int:
    if num_heads is None:
        if student.num_heads != teacher.num_heads:
            common = math.gcd(student.width, teacher.width)
            raise ValueError(
                f"student and teacher have {student.num_heads} and {teacher.num_heads} heads; give the "
                f"number of relation heads that both are read as: a divisor of {common}"
            )
        return student.num_heads
    for name, side in (("student", student), ("teacher", teacher)):
        if side.width % num_heads:
            raise ValueError(f"num_heads must divide the {name}'s width of {side.width}, got {num_heads}")
    return num_heads


def _split_heads(layer: QueryKey, num_heads: int) -> tuple[Tensor, Tensor]:
    """Queries, scaled, and keys as (B, N, L, D), in float32: scores are sums of many products."""
    scaling = layer.scaling if num_heads == layer.num_heads else (layer.width // num_heads) ** -0.5

    def split(whole_BLW: Tensor) -> Tensor:
        return whole_BLW.float().view(*whole_BLW.shape[:2], num_heads, -1).transpose(1, 2)

    return split(layer.query_BLW) * scaling, split(layer.key_BLW)


def _num_tokens(mask_BL: Tensor) -> Tensor:
    return mask_BL.float().sum(dim=1).clamp(min=1)
