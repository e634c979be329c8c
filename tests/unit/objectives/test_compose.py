"""Eqs. 6 and 11: every term by its name, and their weighted sum."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from understudy.capture.representations import QueryKey, Representations
from understudy.objectives.compose import layer_losses, weight_of, weighted_sum
from understudy.objectives.tinybert import attention_loss, embedding_loss, hidden_loss


def shown(seed: int, lengths: list[int], width: int, head: int) -> Representations:
    """Two layers of two heads; what stands at a place does not depend on the batch's width."""
    generator = torch.Generator().manual_seed(seed)

    def states(size: int) -> Tensor:
        return torch.randn(len(lengths), 12, size, generator=generator)[:, :width]

    return Representations(
        states(6),
        (states(6), states(6)),
        tuple(QueryKey(states(2 * head), states(2 * head), 2, head**-0.5) for _ in range(2)),
        {},
    )


def mask_of(lengths: list[int], width: int) -> Tensor:
    return (torch.arange(width)[None] < torch.tensor(lengths)[:, None]).long()


def pick(seen: Representations, rows: list[int]) -> Representations:
    return Representations(
        seen.embeddings_BLH[rows],
        tuple(state[rows] for state in seen.hidden),
        tuple(QueryKey(qk.query_BLW[rows], qk.key_BLW[rows], 2, qk.scaling) for qk in seen.query_key),
        {},
    )


def test_the_terms_are_eq_7_8_and_9_of_each_layer() -> None:
    student, teacher, mask = shown(0, [4, 2], 4, 3), shown(1, [4, 2], 4, 5), mask_of([4, 2], 4)
    terms = layer_losses(student, teacher, mask, weights={})
    assert list(terms) == ["embeddings", "attention_1", "attention_2", "hidden_1", "hidden_2"]
    assert torch.equal(
        terms["embeddings"], embedding_loss(student.embeddings_BLH, teacher.embeddings_BLH, mask)
    )
    assert torch.equal(terms["hidden_2"], hidden_loss(student.hidden[1], teacher.hidden[1], mask))
    assert torch.equal(terms["attention_1"], attention_loss(student.query_key[0], teacher.query_key[0], mask))
    padded = layer_losses(student, teacher, mask, weights={}, padded=True)
    assert not torch.allclose(padded["hidden_1"], terms["hidden_1"])


def test_the_sum_by_hand() -> None:
    terms = {
        "embeddings": torch.tensor([1.0, 2.0]),
        "attention_1": torch.tensor([10.0, 20.0]),
        "attention_2": torch.tensor([100.0, 200.0]),
    }
    assert weighted_sum(terms, {}).tolist() == [111.0, 222.0]
    # 1 · 1 + 0.5 · 10 + 0.1 · 100: a name goes before its kind
    assert weighted_sum(terms, {"attention": 0.5, "attention_2": 0.1}).tolist() == pytest.approx([16.0, 32.0])
    assert weight_of("attention_12", {"attention": 3.0}) == 3.0
    assert weight_of("starts", {}) == 1.0


def test_a_term_of_no_weight_is_not_computed() -> None:
    student, teacher, mask = shown(0, [4], 4, 3), shown(1, [4], 4, 5), mask_of([4], 4)
    terms = layer_losses(student, teacher, mask, weights={"attention": 0, "hidden_1": 0})
    assert list(terms) == ["embeddings", "hidden_2"]


def test_padding_order_and_splits_change_nothing() -> None:
    lengths = [7, 3, 5]
    student, teacher = shown(0, lengths, 7, 3), shown(1, lengths, 7, 5)
    whole = weighted_sum(layer_losses(student, teacher, mask_of(lengths, 7), weights={}), {})
    wide = weighted_sum(
        layer_losses(shown(0, lengths, 12, 3), shown(1, lengths, 12, 5), mask_of(lengths, 12), weights={}),
        {},
    )
    assert torch.allclose(wide, whole, atol=1e-6, rtol=1e-6)
    for rows in ([2, 0, 1], [1], [0, 2]):
        part = weighted_sum(
            layer_losses(pick(student, rows), pick(teacher, rows), mask_of(lengths, 7)[rows], weights={}), {}
        )
        assert torch.allclose(part, whole[rows], atol=1e-6, rtol=1e-6)
