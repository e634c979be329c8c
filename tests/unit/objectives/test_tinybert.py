"""Each equation against values computed by hand, and what must not change it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from understudy.capture.representations import QueryKey
from understudy.objectives.tinybert import (
    _square_linear,
    _square_matrix,
    attention_loss,
    embedding_loss,
    hidden_loss,
    multi_label_prediction_loss,
    prediction_loss,
    regression_prediction_loss,
    span_prediction_loss,
    token_prediction_loss,
)

MODULE = "understudy.objectives.tinybert"
WAYS = {"_square_matrix": _square_matrix, "_square_linear": _square_linear}


def by(way: str, *arguments: Any, **options: Any) -> Tensor:
    """Eq. 7 by one of its two ways, whatever the length."""
    with pytest.MonkeyPatch.context() as patch:
        for name in WAYS:
            patch.setattr(f"{MODULE}.{name}", WAYS[way])
        return attention_loss(*arguments, **options)


BOTH_WAYS = pytest.mark.parametrize("way", WAYS)


def layer(seed: int, batch: int, length: int, heads: int, size: int) -> QueryKey:
    generator = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, batch, length, heads * size, generator=generator)
    return QueryKey(query.requires_grad_(), key.requires_grad_(), heads, size**-0.5)


def prefix_mask(lengths: list[int], width: int) -> Tensor:
    return (torch.arange(width)[None] < torch.tensor(lengths)[:, None]).long()


@BOTH_WAYS
def test_attention_by_hand(way: str) -> None:
    # One head of size 1, scaling 1: scores are q_i · k_j.
    # student [[1, 2], [2, 4]], teacher [[0, 0], [1, 3]]: differences 1 2 1 1, squares 1 4 1 1
    student = QueryKey(torch.tensor([[[1.0], [2.0]]]), torch.tensor([[[1.0], [2.0]]]), 1, 1.0)
    teacher = QueryKey(torch.tensor([[[0.0], [1.0]]]), torch.tensor([[[1.0], [3.0]]]), 1, 1.0)
    assert by(way, student, teacher, torch.tensor([[1, 1]])).tolist() == pytest.approx([7 / 4])
    # With the second token padded only the first pair counts.
    assert by(way, student, teacher, torch.tensor([[1, 0]])).tolist() == pytest.approx([1.0])
    # As published: the padded query at the real key counts, and 4 pairs divide: (1 + 1) / 4.
    assert by(way, student, teacher, torch.tensor([[1, 0]]), padded=True).tolist() == pytest.approx([0.5])


@BOTH_WAYS
def test_attention_is_the_mean_over_heads_and_uses_each_scaling(way: str) -> None:
    # Two heads, one token. Student: 1·2·½ = 1 and 3·1·½ = 1.5; teacher: 2·1·1 = 2 and 0.
    student = QueryKey(torch.tensor([[[1.0, 3.0]]]), torch.tensor([[[2.0, 1.0]]]), 2, 0.5)
    teacher = QueryKey(torch.tensor([[[2.0, 0.0]]]), torch.tensor([[[1.0, 5.0]]]), 2, 1.0)
    loss = by(way, student, teacher, torch.tensor([[1]]))
    assert loss.tolist() == pytest.approx([(1.0 + 2.25) / 2])


@BOTH_WAYS
def test_attention_read_as_one_relation_head(way: str) -> None:
    # Heads 2 and 1 read as one of size 2 on both sides: (1·2 + 3·1)/√2 and (2·1 + 0·5)/√2.
    student = QueryKey(torch.tensor([[[1.0, 3.0]]]), torch.tensor([[[2.0, 1.0]]]), 2, 1.0)
    teacher = QueryKey(torch.tensor([[[2.0, 0.0]]]), torch.tensor([[[1.0, 5.0]]]), 1, 2**-0.5)
    loss = by(way, student, teacher, torch.tensor([[1]]), num_heads=1)
    assert loss.tolist() == pytest.approx([(5 / math.sqrt(2) - 2 / math.sqrt(2)) ** 2])


@settings(max_examples=60, deadline=None)
@given(
    heads=st.integers(1, 4),
    sizes=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    lengths=st.lists(st.integers(1, 24), min_size=1, max_size=4),
    more=st.integers(0, 8),
    padded=st.booleans(),
    seed=st.integers(0, 999),
)
def test_the_two_ways_are_equal_in_value_and_gradient(
    heads: int, sizes: tuple[int, int], lengths: list[int], more: int, padded: bool, seed: int
) -> None:
    width = max(lengths) + more
    mask = prefix_mask(lengths, width)
    results = []
    for way in WAYS:
        student = layer(seed, len(lengths), width, heads, sizes[0])
        teacher = layer(seed + 1, len(lengths), width, heads, sizes[1])
        loss = by(way, student, teacher, mask, padded=padded)
        loss.sum().backward()
        assert teacher.query_BLW.grad is None
        assert teacher.key_BLW.grad is None
        results.append((loss.detach(), student.query_BLW.grad, student.key_BLW.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(
    widths=st.sampled_from([(12, 24, 6), (12, 8, 4), (24, 36, 12), (10, 15, 5)]),
    length=st.integers(1, 16),
    seed=st.integers(0, 999),
)
def test_unequal_head_counts_through_relation_heads(
    widths: tuple[int, int, int], length: int, seed: int
) -> None:
    student_width, teacher_width, relation_heads = widths
    student = layer(seed, 2, length, 1, student_width)
    teacher = layer(seed + 1, 2, length, 1, teacher_width)
    mask = torch.ones(2, length)
    matrix, linear = (by(way, student, teacher, mask, num_heads=relation_heads) for way in WAYS)
    torch.testing.assert_close(matrix, linear, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("length", "expected"), [(36, "_square_matrix"), (37, "_square_linear")])
def test_the_cheaper_way_is_chosen_by_length(
    length: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    student, teacher = layer(0, 1, length, 2, 8), layer(1, 1, length, 2, 10)  # twice 8 + 10 is 36

    def called(left: Tensor, right: Tensor) -> Tensor:
        raise AssertionError(expected)

    monkeypatch.setattr(f"{MODULE}.{expected}", called)
    with pytest.raises(AssertionError, match=expected):
        attention_loss(student, teacher, torch.ones(1, length))


def test_heads_that_cannot_be_matched_are_refused() -> None:
    student, teacher = layer(0, 1, 3, 3, 4), layer(1, 1, 3, 2, 6)
    with pytest.raises(ValueError, match=r"3 and 2 heads; give the number of relation heads.*divisor of 12"):
        attention_loss(student, teacher, torch.ones(1, 3))
    with pytest.raises(ValueError, match="must divide the student's width of 12, got 5"):
        attention_loss(student, teacher, torch.ones(1, 3), num_heads=5)


def test_hidden_states_by_hand() -> None:
    student = torch.tensor([[[1.0, 2.0], [5.0, 5.0]]])
    teacher = torch.tensor([[[0.0, 4.0], [5.0, 7.0]]])
    # squares 1 4 | 0 4: tokens 2.5 and 2
    assert hidden_loss(student, teacher, torch.tensor([[1, 1]])).tolist() == pytest.approx([2.25])
    assert hidden_loss(student, teacher, torch.tensor([[1, 0]])).tolist() == pytest.approx([2.5])
    padded = hidden_loss(student, teacher, torch.tensor([[1, 0]]), padded=True)
    assert padded.tolist() == pytest.approx([2.25])
    assert embedding_loss(student, teacher, torch.tensor([[1, 0]])).tolist() == pytest.approx([2.5])


def test_predictions_by_hand() -> None:
    # teacher softmax (0, ln 3) = (1/4, 3/4); student (0, 0) = (1/2, 1/2): CE = ln 2
    student, teacher = torch.zeros(1, 2), torch.tensor([[0.0, math.log(3)]])
    assert prediction_loss(student, teacher).tolist() == pytest.approx([math.log(2)])
    # student (0, ln 3) too: the entropy of (1/4, 3/4)
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert prediction_loss(teacher, teacher).tolist() == pytest.approx([entropy])
    # temperature 2 halves the logits: teacher softmax (0, ln √3)
    high = math.sqrt(3) / (1 + math.sqrt(3))
    student = torch.tensor([[0.0, 2 * math.log(2)]])  # halved: (1/3, 2/3)
    expected = -((1 - high) * math.log(1 / 3) + high * math.log(2 / 3))
    assert prediction_loss(student, teacher, temperature=2.0).tolist() == pytest.approx([expected])
    assert prediction_loss(student, teacher, temperature=2.0, padded=True).tolist() == pytest.approx(
        [expected / 2]
    )


def test_identity_is_zero() -> None:
    states = torch.randn(2, 5, 8)
    mask = prefix_mask([5, 3], 5)
    assert hidden_loss(states, states, mask).tolist() == [0.0, 0.0]
    same = layer(0, 2, 5, 2, 4)
    for way in WAYS:  # what cancels does so up to rounding
        assert by(way, same, same, mask).tolist() == pytest.approx([0.0, 0.0], abs=1e-6)


def test_gradients_reach_the_student_only() -> None:
    student, teacher = (torch.randn(2, 5, 8, requires_grad=True) for _ in range(2))
    hidden_loss(student, teacher, torch.ones(2, 5)).sum().backward()
    assert student.grad is not None
    assert teacher.grad is None
    student, teacher = (torch.randn(2, 3, requires_grad=True) for _ in range(2))
    prediction_loss(student, teacher).sum().backward()
    assert student.grad is not None
    assert teacher.grad is None


@BOTH_WAYS
def test_what_stands_at_padding_reaches_no_gradient(way: str) -> None:
    student, teacher = layer(0, 1, 3, 2, 4), layer(1, 1, 3, 2, 4)
    with torch.no_grad():
        student.query_BLW[0, 2] = student.key_BLW[0, 2] = 1e4  # anything finite
    by(way, student, teacher, torch.tensor([[1, 1, 0]])).sum().backward()
    assert student.query_BLW.grad is not None
    assert student.query_BLW.grad.isfinite().all()
    assert (student.query_BLW.grad[0, 2] == 0).all()
    states = torch.tensor([[[1.0], [1e4]]], requires_grad=True)
    hidden_loss(states, torch.zeros(1, 2, 1), torch.tensor([[1, 0]])).sum().backward()
    assert states.grad is not None
    assert states.grad.flatten().tolist() == [2.0, 0.0]


def test_unlike_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"got \(1, 2, 3\) and \(1, 2, 4\); project the student first"):
        hidden_loss(torch.zeros(1, 2, 3), torch.zeros(1, 2, 4), torch.ones(1, 2))
    with pytest.raises(ValueError, match=r"got \(1, 2\) and \(1, 3\)"):
        prediction_loss(torch.zeros(1, 2), torch.zeros(1, 3))
    with pytest.raises(ValueError, match="temperature must be positive, got 0"):
        prediction_loss(torch.zeros(1, 2), torch.zeros(1, 2), temperature=0)
    with pytest.raises(ValueError, match=r"same shape, got \(1, 2\) and \(1, 3\)"):
        multi_label_prediction_loss(torch.zeros(1, 2), torch.zeros(1, 3))


@BOTH_WAYS
def test_padding_order_and_split_change_no_attention_loss(way: str) -> None:
    lengths = [7, 3, 5]
    student, teacher = layer(0, 3, 7, 2, 4), layer(1, 3, 7, 2, 6)
    mask = prefix_mask(lengths, 7)
    expected = by(way, student, teacher, mask)

    def changed(side: QueryKey, change: Callable[[Tensor], Tensor]) -> QueryKey:
        return QueryKey(change(side.query_BLW), change(side.key_BLW), side.num_heads, side.scaling)

    def compare(change: Callable[[Tensor], Tensor], new_mask: Tensor, wanted: Tensor) -> None:
        loss = by(way, changed(student, change), changed(teacher, change), new_mask)
        torch.testing.assert_close(loss, wanted, rtol=0, atol=1e-6)

    # Padding may hold anything, also what is no number.
    garbage = torch.full((3, 4, 1), 1e4)
    compare(
        lambda x: torch.cat([x, garbage.expand(-1, -1, x.shape[-1])], dim=1),
        prefix_mask(lengths, 11),
        expected,
    )
    compare(lambda x: x.flip(0), mask.flip(0), expected.flip(0))
    compare(lambda x: x[1:2, :3], mask[1:2, :3], expected[1:2])


def test_padding_order_and_split_change_no_hidden_loss() -> None:
    lengths = [7, 3, 5]
    student, teacher = torch.randn(2, 3, 7, 4, generator=torch.Generator().manual_seed(0))
    mask = prefix_mask(lengths, 7)
    expected = hidden_loss(student, teacher, mask)
    garbage = torch.full((3, 4, 4), 1e4)
    wide = hidden_loss(
        torch.cat([student, garbage], 1), torch.cat([teacher, garbage], 1), prefix_mask(lengths, 11)
    )
    torch.testing.assert_close(wide, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(hidden_loss(student.flip(0), teacher.flip(0), mask.flip(0)), expected.flip(0))
    torch.testing.assert_close(
        hidden_loss(student[1:2, :3], teacher[1:2, :3], mask[1:2, :3]), expected[1:2], rtol=0, atol=1e-6
    )


ENTROPY = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))


def test_predictions_of_tokens_by_hand() -> None:
    # First token: teacher (1/4, 3/4) against an even student, ln 2. Second: the teacher itself.
    teacher = torch.tensor([[[0.0, math.log(3)], [0.0, math.log(3)], [5.0, -5.0]]])
    student = torch.tensor([[[0.0, 0.0], [0.0, math.log(3)], [-9.0, 9.0]]])
    loss = token_prediction_loss(student, teacher, torch.tensor([[1, 1, 0]]))
    assert loss.tolist() == pytest.approx([(math.log(2) + ENTROPY) / 2])
    assert token_prediction_loss(student, teacher, torch.tensor([[1, 0, 0]])).tolist() == pytest.approx(
        [math.log(2)]
    )
    # As published: the mean over all three positions and both classes; the third is nearly 18.
    every = token_prediction_loss(student, teacher, torch.tensor([[1, 1, 1]]))
    padded = token_prediction_loss(student, teacher, torch.tensor([[1, 1, 0]]), padded=True)
    assert padded.tolist() == pytest.approx((every / 2).tolist())


def test_predictions_of_positions_by_hand() -> None:
    # Over the two real positions: teacher (1/4, 3/4), student even. Padding's logits have no say.
    teacher = torch.tensor([[0.0, math.log(3), 50.0]])
    student = torch.tensor([[1.0, 1.0, 70.0]])
    loss = span_prediction_loss(student, teacher, torch.tensor([[1, 1, 0]]))
    assert loss.tolist() == pytest.approx([math.log(2)])
    # Temperature 2 on both sides: (1, √3) / (1 + √3) against an even student is ln 2 again.
    assert span_prediction_loss(student, teacher, torch.tensor([[1, 1, 0]]), temperature=2.0).tolist() == (
        pytest.approx([math.log(2)])
    )
    # As published, padding is a position: the teacher is sure of it, and so is the student; 3 divides.
    padded = span_prediction_loss(student, teacher, torch.tensor([[1, 1, 0]]), padded=True)
    assert padded.tolist() == pytest.approx([0.0], abs=1e-6)


def test_predictions_of_several_labels_by_hand() -> None:
    # Teacher σ(log 3) = 3/4 and σ(0) = 1/2; student σ(0) = 1/2 and σ(−log 3) = 1/4.
    # First label: log 2 for any target. Second: −½ log ¼ − ½ log ¾ = ½ log (16/3).
    student, teacher = torch.tensor([[0.0, -math.log(3)]]), torch.tensor([[math.log(3), 0.0]])
    expected = (math.log(2) + math.log(16 / 3) / 2) / 2
    assert multi_label_prediction_loss(student, teacher).tolist() == pytest.approx([expected])
    # Logits twice as large at twice the temperature.
    softened = multi_label_prediction_loss(2 * student, 2 * teacher, temperature=2.0)
    assert softened.tolist() == pytest.approx([expected])
    # A label more of the same adds nothing: it is the mean over labels.
    twice = (torch.cat([side, side], dim=1) for side in (student, teacher))
    assert multi_label_prediction_loss(*twice).tolist() == pytest.approx([expected])


def test_several_labels_at_identity_are_the_entropy_without_a_gradient() -> None:
    teacher = torch.tensor([[math.log(3), 0.0], [50.0, -50.0]])
    student = teacher.clone().requires_grad_()
    loss = multi_label_prediction_loss(student, teacher)
    entropy = (math.log(4) - 0.75 * math.log(3) + math.log(2)) / 2
    assert loss.tolist() == pytest.approx([entropy, 0.0], abs=1e-6)
    (gradient,) = torch.autograd.grad(loss.sum(), student)
    assert gradient.abs().max() < 1e-7
    # Away from it, it is (σ(z_S) − σ(z_T)) / C.
    other = torch.zeros(1, 2, requires_grad=True)
    multi_label_prediction_loss(other, teacher[:1]).sum().backward()
    assert other.grad is not None
    assert other.grad[0].tolist() == pytest.approx([(0.5 - 0.75) / 2, 0.0])


def test_predictions_of_numbers_by_hand() -> None:
    loss = regression_prediction_loss(torch.tensor([1.0, 2.0]), torch.tensor([4.0, 2.5]))
    assert loss.tolist() == pytest.approx([9.0, 0.25])


@pytest.mark.parametrize("loss", [token_prediction_loss, span_prediction_loss])
def test_padding_and_batch_do_not_change_predictions_of_tokens(loss: Callable[..., Tensor]) -> None:
    shape = (3, 5, 4) if loss is token_prediction_loss else (3, 5)
    student, teacher = torch.randn(2, *shape)
    mask = prefix_mask([5, 2, 4], 5)
    whole = loss(student, teacher, mask)
    wider = [torch.cat([side, torch.full((3, 3, *shape[2:]), 1e4)], dim=1) for side in (student, teacher)]
    assert torch.allclose(loss(*wider, prefix_mask([5, 2, 4], 8)), whole, atol=1e-6)
    order = [2, 0, 1]
    assert torch.allclose(loss(student[order], teacher[order], mask[order]), whole[order], atol=1e-6)
    assert torch.allclose(loss(student[1:2], teacher[1:2], mask[1:2]), whole[1:2], atol=1e-6)


@pytest.mark.parametrize(
    "loss",
    [token_prediction_loss, span_prediction_loss, regression_prediction_loss, multi_label_prediction_loss],
)
def test_gradients_of_every_prediction_reach_the_student_only(loss: Callable[..., Tensor]) -> None:
    shape = {token_prediction_loss: (2, 3, 4), regression_prediction_loss: (2,)}.get(loss, (2, 3))
    student, teacher = (torch.randn(shape, requires_grad=True) for _ in range(2))
    masks = (prefix_mask([3, 2], 3),) if loss in (token_prediction_loss, span_prediction_loss) else ()
    loss(student, teacher, *masks).sum().backward()
    assert student.grad is not None
    assert student.grad.isfinite().all()
    assert teacher.grad is None
    if masks:
        assert (student.grad[1, 2] == 0).all()
    with pytest.raises(ValueError, match="must have the same shape"):
        loss(student[:1], teacher, *masks)


def test_the_linear_form_never_reports_less_than_nothing() -> None:
    """Rounding may take a sum of squares below 0: near identity by 1e-6."""
    for seed in range(20):
        student = layer(seed, 2, 96, 2, 8)
        query = student.query_BLW.detach() + 1e-5 * layer(seed + 100, 2, 96, 2, 8).query_BLW.detach()
        teacher = QueryKey(query, student.key_BLW.detach(), 2, student.scaling)
        loss_B = attention_loss(student, teacher, prefix_mask([96, 50], 96))
        assert (loss_B >= 0).all(), seed
        loss_B.sum().backward()
        assert student.query_BLW.grad is not None
