"""The joint objectives: their sum by hand, and the weight of the layers over the steps."""

from __future__ import annotations

import pytest
import torch

from understudy.capture.representations import Representations
from understudy.kinds import get_kind
from understudy.training.objectives import JointObjectives, TinyBertObjectives


def side(hidden: float, logits: list[float]) -> Representations:
    """One token of width 2 in one layer, embeddings of 0, and logits of two classes."""
    state = torch.full((1, 1, 2), hidden)
    return Representations(torch.zeros(1, 1, 2), (state,), (), {"logits": torch.tensor([logits])})


BATCH = {
    "input_ids": torch.ones(1, 1, dtype=torch.long),
    "attention_mask": torch.ones(1, 1),
    "labels": torch.tensor([0]),
}


def test_the_sum_by_hand() -> None:
    objectives = JointObjectives(
        get_kind("classification"),
        TinyBertObjectives(weights={"attention": 0.0, "embeddings": 0.0, "hidden": 0.5}),
        layers=4.0,
        until=0.5,
        predictions=2.0,
        labels=3.0,
    )
    student, teacher = side(1.0, [0.0, 0.0]), side(3.0, [0.0, 0.0])
    terms = objectives.losses(student, teacher, BATCH)
    # (3 − 1)² of the states; two even classes: ln 2 for the predictions and for the label.
    assert {name: loss.item() for name, loss in terms.items()} == pytest.approx(
        {"hidden_1": 4.0, "predictions": 0.6931472, "labels": 0.6931472}
    )
    # 4 · 0.5 · 4 + (2 + 3) ln 2 at the start; half of the layers after a quarter of the steps; none at half.
    for progress, expected in ((0.0, 8 + 3.465736), (0.25, 4 + 3.465736), (0.5, 3.465736), (0.9, 3.465736)):
        assert objectives.total(terms, progress).item() == pytest.approx(expected)


@pytest.mark.parametrize("left_out", ["layers", "predictions", "labels"])
def test_a_part_without_weight_is_left_out(left_out: str) -> None:
    objectives = JointObjectives(
        get_kind("classification"), TinyBertObjectives(weights={"attention": 0.0}), **{left_out: 0.0}
    )
    student, teacher = side(1.0, [0.0, 0.0]), side(3.0, [0.0, 0.0])
    names = set(objectives.losses(student, teacher, BATCH))
    terms = {"layers": {"embeddings", "hidden_1"}, "predictions": {"predictions"}, "labels": {"labels"}}
    assert names == set.union(*(terms[name] for name in terms if name != left_out))


def test_without_layers_nothing_of_them_is_captured() -> None:
    objectives = JointObjectives(get_kind("classification"), layers=0.0)
    assert (objectives.layer_map, objectives.attention) == (None, False)
    assert JointObjectives(get_kind("classification")).attention


def test_layers_on_rows_without_labels_only() -> None:
    """Two equal rows, one with a label: the layers count on the other, the label on the one."""
    objectives = JointObjectives(
        get_kind("classification"),
        TinyBertObjectives(weights={"attention": 0.0, "embeddings": 0.0}),
        unlabelled_layers=True,
    )
    two = {name: torch.cat([value, value]) for name, value in BATCH.items()}
    two["labelled"] = torch.tensor([1, 0])

    def doubled(one: Representations) -> Representations:
        return Representations(
            torch.zeros(2, 1, 2),
            (one.hidden[0].repeat(2, 1, 1),),
            (),
            {"logits": one.logits["logits"].repeat(2, 1)},
        )

    student, teacher = doubled(side(1.0, [0.0, 0.0])), doubled(side(3.0, [0.0, 0.0]))
    terms = objectives.losses(student, teacher, two)
    assert terms["hidden_1"].tolist() == [0.0, 4.0]
    assert terms["labels"].tolist() == pytest.approx([0.6931472, 0.0])
    assert terms["predictions"].tolist() == pytest.approx([0.6931472] * 2)
