"""Patient KD's terms against values computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from understudy.objectives.compose import weighted_sum
from understudy.objectives.patient import label_loss, mix_weights, patient_loss, soft_label_loss


def test_soft_labels_by_hand() -> None:
    # At temperature 2 the teacher's (0, 2 ln 3) is (1/4, 3/4); an even student: ln 2.
    student, teacher = torch.zeros(1, 2), torch.tensor([[0.0, 2 * math.log(3)]])
    plain = soft_label_loss(student, teacher, temperature=2.0, squared=False)
    assert plain.tolist() == pytest.approx([math.log(2)])
    assert soft_label_loss(student, teacher, temperature=2.0).tolist() == pytest.approx([4 * math.log(2)])


def test_soft_labels_in_the_scale_of_the_published_code() -> None:
    """Theirs is the KL divergence, averaged over rows and classes: without the entropy, and divided by C."""
    torch.manual_seed(0)
    student, teacher = torch.randn(4, 3), torch.randn(4, 3)
    told = torch.softmax(teacher / 5, dim=-1)
    theirs = torch.nn.KLDivLoss(reduction="none")(torch.log_softmax(student / 5, dim=-1), told).mean() * 25
    entropy = -(told * told.log()).sum(dim=-1) * 25
    ours = (soft_label_loss(student, teacher, temperature=5.0) - entropy).mean() / 3
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-5)


def test_labels_by_hand() -> None:
    logits = torch.tensor([[0.0, math.log(3)], [0.0, math.log(3)]])
    assert label_loss(logits, torch.tensor([1, 0])).tolist() == pytest.approx([math.log(4 / 3), math.log(4)])


def test_patience_by_hand() -> None:
    # (3, 4) and (0, 2): normalised (0.6, 0.8) and (0, 1): squares 0.36 and 0.04, mean 0.2
    student, teacher = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]])
    assert patient_loss(student, teacher).tolist() == pytest.approx([0.2])
    # not normalised: 9 and 4, mean 6.5
    assert patient_loss(student, teacher, normalized=False).tolist() == pytest.approx([6.5])
    assert patient_loss(2 * teacher, teacher).tolist() == pytest.approx([0.0])


def test_the_whole_by_hand() -> None:
    # α 0.2, β 10: 0.8 · L_CE + 0.2 · L_DS + 10 · (the mean of L_PT over two layers)
    terms = {
        "labels": torch.tensor([2.0]),
        "soft_labels": torch.tensor([4.0]),
        "patient_1": torch.tensor([0.1]),
        "patient_2": torch.tensor([0.2]),
    }
    assert weighted_sum(terms, mix_weights(0.2, 10.0, 2)).tolist() == pytest.approx([1.6 + 0.8 + 1.5])
    plain = {name: terms[name] for name in ("labels", "soft_labels")}
    assert weighted_sum(plain, mix_weights(0.2)).tolist() == pytest.approx([1.6 + 0.8])


def test_gradients_reach_the_student_only() -> None:
    for loss in (
        lambda student, teacher: soft_label_loss(student, teacher, temperature=3.0),
        patient_loss,
        lambda student, teacher: patient_loss(student, teacher, normalized=False),
    ):
        student, teacher = (torch.randn(2, 3, requires_grad=True) for _ in range(2))
        loss(student, teacher).sum().backward()
        assert student.grad is not None
        assert teacher.grad is None


def test_unlike_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="project the student first"):
        patient_loss(torch.zeros(2, 3), torch.zeros(2, 4))
