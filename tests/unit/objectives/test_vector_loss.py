"""The prediction loss of embeddings, by hand."""

from __future__ import annotations

import pytest
import torch

from understudy.objectives.vectors import similarity_loss, vector_loss


def test_it_is_one_minus_the_cosine() -> None:
    student = torch.tensor([[3.0, 4.0], [1.0, 0.0], [2.0, 0.0], [1.0, 1.0]])
    teacher = torch.tensor([[3.0, 4.0], [0.0, 5.0], [-1.0, 0.0], [1.0, 0.0]])
    # cos: 1, 0, -1, 1/√2
    expected = [0.0, 1.0, 2.0, 1 - 0.5**0.5]
    assert vector_loss(student, teacher).tolist() == pytest.approx(expected, abs=1e-6)


def test_lengths_do_not_count_and_pairs_keep_their_shape() -> None:
    torch.manual_seed(0)
    student, teacher = torch.randn(3, 2, 5), torch.randn(3, 2, 5)
    loss = vector_loss(student, teacher)
    assert loss.shape == (3, 2)
    assert torch.allclose(vector_loss(7 * student, 0.1 * teacher), loss, atol=1e-6)


def test_the_gradient_reaches_the_student_only() -> None:
    student, teacher = torch.tensor([[1.0, 0.0]], requires_grad=True), torch.tensor([[0.0, 1.0]])
    teacher.requires_grad_()
    vector_loss(student, teacher).sum().backward()
    # d(1 − cos)/dx at (1, 0) against (0, 1): only the second number matters.
    assert student.grad is not None
    assert student.grad.tolist() == [[0.0, -1.0]]
    assert teacher.grad is None


def test_other_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="the same shape"):
        vector_loss(torch.zeros(1, 2), torch.zeros(1, 3))


def test_cosines_within_a_batch_by_hand() -> None:
    student = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    teacher = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 5.0]])
    # Cosines of the student: 0, 1/√2, 1/√2; of the teacher: 1, 0, 0.
    expected = [(1 + 0.5) / 2, (1 + 0.5) / 2, (0.5 + 0.5) / 2]
    assert similarity_loss(student, teacher).tolist() == pytest.approx(expected, abs=1e-6)
    assert similarity_loss(student[:1], teacher[:1]).tolist() == pytest.approx([0.0], abs=1e-6)
    # Vectors of another width have cosines, too.
    assert similarity_loss(student, torch.eye(3)).shape == (3,)


def test_cosines_within_a_batch_have_gradients_for_the_student_alone() -> None:
    torch.manual_seed(0)
    student, teacher = (torch.randn(4, 5, requires_grad=True) for _ in range(2))
    similarity_loss(student, teacher).sum().backward()
    assert student.grad is not None
    assert student.grad.abs().sum() > 0
    assert teacher.grad is None
