"""MarginMSE, by hand."""

from __future__ import annotations

import pytest
import torch

from understudy.objectives.ranking import margin_loss


def test_it_is_the_squared_error_of_margins() -> None:
    student = torch.tensor([[3.0, 1.0], [0.0, 2.0]])
    teacher = torch.tensor([[5.0, 2.0], [1.0, 3.0]])
    # margins 2 and 3, then -2 and -2
    assert margin_loss(student, teacher).tolist() == [1.0, 0.0]


def test_a_shift_of_all_scores_does_not_count() -> None:
    torch.manual_seed(0)
    student, teacher = torch.randn(4, 2), torch.randn(4, 2)
    assert torch.allclose(margin_loss(student + 7, teacher - 2), margin_loss(student, teacher), atol=1e-5)


def test_the_gradient_reaches_the_student_only() -> None:
    student = torch.tensor([[1.0, 0.0]], requires_grad=True)
    teacher = torch.tensor([[3.0, 0.0]], requires_grad=True)
    margin_loss(student, teacher).sum().backward()
    assert student.grad is not None
    assert student.grad.tolist() == [[-4.0, 4.0]]  # 2 · (1 − 3), and its opposite
    assert teacher.grad is None


@pytest.mark.parametrize("shapes", [((2, 1), (2, 1)), ((2, 3), (2, 3)), ((2, 2), (2, 3))])
def test_scores_of_other_passages_are_refused(shapes: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ValueError, match="the same two passages"):
        margin_loss(*(torch.zeros(shape) for shape in shapes))
