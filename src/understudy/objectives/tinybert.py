"""TinyBERT's objectives (EMNLP paper, section 3.1), one loss per example.

Each function returns a vector with the loss of every example of the batch: the mean over that
example's own real tokens (Eqs. 8, 9) or pairs of real tokens (Eq. 7), following the paper's sum over x.
Padding, the order of a batch and its split into smaller ones have no effect, and a loss that is NaN can be
traced to its example. `padded=True` gives the published code's mean, which includes padding.

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
    """TinyBERT Eq. 7: mean squared difference of unnormalised attention scores, per example.

    The difference of the scores is U Vᵀ with U = [Q_S, −Q_T] (scaled) and V = [K_S, K_T]. Its squared norm is
    computed from the L×L matrix, or from ‖U Vᵀ‖² = Σ (UᵀU ∘ VᵀV), which is exact and linear in the length,
    whichever is cheaper.

    Args:
        mask_BL: 1 or True at real tokens.
        num_heads: the number of relation heads that both models are regrouped into. Defaults to their own
            number of heads, which must then be equal.
        padded: divide by the padded length squared, and include padded queries at real keys, as in the
            published code.

    Returns:
        loss_B.
    """
    left, right = _difference_factors(student, teacher, mask_BL, num_heads, padded)
    length, size = left.shape[-2:]
    # Multiplications: L²·D for the matrix, 2·L·D² for the linear form, with D the sum of both head sizes.
    total_B = _square_linear(left, right) if length > 2 * size else _square_matrix(left, right)
    # The linear form may be slightly negative: clamp the value, but keep the gradient.
    total_B = total_B + (total_B.detach().clamp(min=0) - total_B.detach())
    if padded:
        return total_B / length**2
    return total_B / _num_tokens(mask_BL).square()


def _square_matrix(left_BNLD: Tensor, right_BNLD: Tensor) -> Tensor:
    """Return ‖U Vᵀ‖² per example, as the mean over heads, from the matrix itself: for short inputs."""
    return (left_BNLD @ right_BNLD.transpose(-1, -2)).square().sum(dim=(-1, -2)).mean(dim=1)


def _square_linear(left_BNLD: Tensor, right_BNLD: Tensor) -> Tensor:
    """Return ‖U Vᵀ‖² per example, as the mean over heads, from matrices of head size: for long inputs."""
    gram_left = left_BNLD.transpose(-1, -2) @ left_BNLD
    gram_right = right_BNLD.transpose(-1, -2) @ right_BNLD
    return (gram_left * gram_right).sum(dim=(-1, -2)).mean(dim=1)


def _difference_factors(
    student: QueryKey, teacher: QueryKey, mask_BL: Tensor, num_heads: int | None, padded: bool
) -> tuple[Tensor, Tensor]:
    """Return U and V, zero at padding, in float32, since scores are sums of many products.

    Mask, scaling and sign are combined into one factor per token, since every pass over the states costs as
    much as the product itself.
    """
    heads = _common_heads(student, teacher, num_heads)
    real_BL = (mask_BL > 0).float()
    queries_BL = torch.ones_like(real_BL) if padded else real_BL

    def split(whole_BLW: Tensor, factor_BL: Tensor) -> Tensor:
        scaled_BLW = whole_BLW * factor_BL[:, :, None]
        return scaled_BLW.view(*scaled_BLW.shape[:2], heads, -1).transpose(1, 2)

    student_query = split(student.query_BLW, queries_BL * _scaling(student, heads))
    teacher_query = split(teacher.query_BLW.detach(), queries_BL * -_scaling(teacher, heads))
    student_key, teacher_key = split(student.key_BLW, real_BL), split(teacher.key_BLW.detach(), real_BL)
    left = torch.cat([student_query, teacher_query], dim=-1)
    right = torch.cat([student_key, teacher_key], dim=-1)
    return left, right


def _scaling(layer: QueryKey, num_heads: int) -> float:
    """Return the model's own scaling, or that of its relation heads' size."""
    return layer.scaling if num_heads == layer.num_heads else (layer.width // num_heads) ** -0.5


def hidden_loss(student_BLH: Tensor, teacher_BLH: Tensor, mask_BL: Tensor, *, padded: bool = False) -> Tensor:
    """TinyBERT Eq. 8: mean squared difference of hidden states, per example.

    Args:
        student_BLH: already projected by W_h if the widths differ.
        mask_BL: 1 or True at real tokens.
        padded: include padded positions, as in the published code.

    Returns:
        loss_B.
    """
    if student_BLH.shape != teacher_BLH.shape:
        raise ValueError(
            f"student and teacher must have the same shape, got {tuple(student_BLH.shape)} and "
            f"{tuple(teacher_BLH.shape)}; project the student first"
        )
    difference = student_BLH.float() - teacher_BLH.detach().float()
    loss_BL = difference.square().mean(dim=-1)
    if padded:
        return loss_BL.mean(dim=1)
    return torch.where(mask_BL > 0, loss_BL, 0).sum(dim=1) / _num_tokens(mask_BL)


def embedding_loss(
    student_BLH: Tensor, teacher_BLH: Tensor, mask_BL: Tensor, *, padded: bool = False
) -> Tensor:
    """TinyBERT Eq. 9: like Eq. 8, for the embedding layer's output (after its LayerNorm)."""
    return hidden_loss(student_BLH, teacher_BLH, mask_BL, padded=padded)


def prediction_loss(
    student_BC: Tensor, teacher_BC: Tensor, *, temperature: float = 1.0, padded: bool = False
) -> Tensor:
    """TinyBERT Eq. 10: cross entropy of softened predictions, CE(z_T / t, z_S / t), per example.

    Args:
        student_BC: logits of the classes, or of a question's choices.
        padded: divide by the number of classes as well, as in the published code.

    Returns:
        loss_B.
    """
    _check_predictions(student_BC, teacher_BC, temperature)
    loss_B = _soft_cross_entropy(student_BC, teacher_BC, temperature)
    return loss_B / student_BC.shape[-1] if padded else loss_B


def token_prediction_loss(
    student_BLC: Tensor,
    teacher_BLC: Tensor,
    mask_BL: Tensor,
    *,
    temperature: float = 1.0,
    padded: bool = False,
) -> Tensor:
    """TinyBERT Eq. 10 at every token (token classification): the mean over real tokens, per example.

    Args:
        mask_BL: 1 or True at real tokens.
        padded: include padded positions, and divide by the number of classes as well.
    """
    _check_predictions(student_BLC, teacher_BLC, temperature)
    loss_BL = _soft_cross_entropy(student_BLC, teacher_BLC, temperature)
    if padded:
        return loss_BL.mean(dim=1) / student_BLC.shape[-1]
    return torch.where(mask_BL > 0, loss_BL, 0).sum(dim=1) / _num_tokens(mask_BL)


def span_prediction_loss(
    student_BL: Tensor,
    teacher_BL: Tensor,
    mask_BL: Tensor,
    *,
    temperature: float = 1.0,
    padded: bool = False,
) -> Tensor:
    """TinyBERT Eq. 10 over positions (question answering), per example.

    Call it for starts and for ends; the loss of an answer is the mean of both.

    Args:
        mask_BL: 1 or True at real tokens; other positions are excluded for both models.
        padded: include padding as possible positions, and divide by the padded length.
    """
    _check_predictions(student_BL, teacher_BL, temperature)
    if padded:
        return _soft_cross_entropy(student_BL, teacher_BL, temperature) / student_BL.shape[-1]
    # The lowest float, not −∞, whose product with a probability of 0 would be NaN.
    lowest = torch.finfo(torch.float32).min
    real = mask_BL > 0
    student_BL, teacher_BL = (
        torch.where(real, side.float() / temperature, lowest) for side in (student_BL, teacher_BL)
    )
    target_BL = nn.functional.softmax(teacher_BL.detach(), dim=-1)
    log_BL = nn.functional.log_softmax(student_BL, dim=-1)
    return -torch.where(real, target_BL * log_BL, 0).sum(dim=-1)


def multi_label_prediction_loss(
    student_BC: Tensor, teacher_BC: Tensor, *, temperature: float = 1.0
) -> Tensor:
    """TinyBERT Eq. 10 for labels that are not mutually exclusive: the mean over labels, per example.

    Each label is a choice of two by itself, so the cross entropy is that of σ(z_T / t) and σ(z_S / t),
    −p_T log p_S − (1 − p_T) log (1 − p_S). The mean over labels, and not the sum, keeps the size of the loss
    and of its gradient independent of how many labels a task has.

    Args:
        student_BC: a logit for each label.

    Returns:
        loss_B.
    """
    _check_predictions(student_BC, teacher_BC, temperature)
    target_BC = torch.sigmoid(teacher_BC.detach().float() / temperature)
    loss_BC = nn.functional.binary_cross_entropy_with_logits(
        student_BC.float() / temperature, target_BC, reduction="none"
    )
    return loss_BC.mean(dim=-1)


def regression_prediction_loss(student_B: Tensor, teacher_B: Tensor) -> Tensor:
    """TinyBERT Eq. 10 for a number, which has no classes: squared error to the teacher's prediction."""
    _check_predictions(student_B, teacher_B, 1.0)
    return (student_B.float() - teacher_B.detach().float()).square()


def _soft_cross_entropy(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return −Σ softmax(z_T / t) · log softmax(z_S / t) over the last dimension."""
    target = nn.functional.softmax(teacher.detach().float() / temperature, dim=-1)
    return -(target * nn.functional.log_softmax(student.float() / temperature, dim=-1)).sum(dim=-1)


def _check_predictions(student: Tensor, teacher: Tensor, temperature: float) -> None:
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    if student.shape != teacher.shape:
        raise ValueError(
            f"student and teacher must have the same shape, got {tuple(student.shape)} and "
            f"{tuple(teacher.shape)}"
        )


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


def _num_tokens(mask_BL: Tensor) -> Tensor:
    return mask_BL.float().sum(dim=1).clamp(min=1)
