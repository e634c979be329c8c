"""Patient KD's objectives (section 3), one loss per example.

L_PKD = (1 − α) L_CE + α L_DS + β L_PT; without its last term it is L_KD, plain soft labels. The sum is
`compose.weighted_sum` with the weights of `mix_weights`.

The teacher's tensors never receive a gradient.
"""

from __future__ import annotations

from torch import Tensor, nn

from understudy.objectives.tinybert import prediction_loss

# B batch, C classes, H hidden size


def mix_weights(alpha: float, beta: float = 0.0, num_layers: int = 0) -> dict[str, float]:
    """Patient KD: the weights of L_KD, or of L_PKD if there are layers, by term.

    L_PT is the mean over layers, as in the authors' code, and matches its grid of β; in the paper it is the
    sum.

    >>> mix_weights(0.2, 10.0, num_layers=2)
    {'labels': 0.8, 'soft_labels': 0.2, 'patient': 5.0}
    """
    weights = {"labels": 1.0 - alpha, "soft_labels": alpha}
    return weights | ({"patient": beta / num_layers} if num_layers else {})


def soft_label_loss(
    student_BC: Tensor, teacher_BC: Tensor, *, temperature: float, squared: bool = True
) -> Tensor:
    """Patient KD, L_DS: cross entropy of softened predictions, per example.

    Args:
        student_BC: logits of the classes, or of a question's choices.
        squared: multiply by the temperature squared, as in the authors' code but not in the paper, so that
            the size of gradients does not depend on the temperature.

    Returns:
        loss_B.
    """
    loss_B = prediction_loss(student_BC, teacher_BC, temperature=temperature)
    return loss_B * temperature**2 if squared else loss_B


def label_loss(student_BC: Tensor, labels_B: Tensor) -> Tensor:
    """Patient KD, L_CE: cross entropy with the labels, per example."""
    return nn.functional.cross_entropy(student_BC.float(), labels_B, reduction="none")


def patient_loss(student_BH: Tensor, teacher_BH: Tensor, *, normalized: bool = True) -> Tensor:
    """Patient KD, L_PT of one layer: mean squared difference of the first token's states, per example.

    The mean is over channels, as in the authors' code, and matches its grid of β; the paper's sum is H times
    as large.

    Args:
        student_BH: states of [CLS], already projected if the widths differ.
        normalized: normalise both to unit length first, as in the paper; the authors' code searches both.

    Returns:
        loss_B.
    """
    if student_BH.shape != teacher_BH.shape:
        raise ValueError(
            f"student and teacher must have the same shape, got {tuple(student_BH.shape)} and "
            f"{tuple(teacher_BH.shape)}; project the student first"
        )
    student_BH, teacher_BH = student_BH.float(), teacher_BH.detach().float()
    if normalized:
        student_BH = nn.functional.normalize(student_BH, dim=-1)
        teacher_BH = nn.functional.normalize(teacher_BH, dim=-1)
    return (student_BH - teacher_BH).square().mean(dim=-1)
