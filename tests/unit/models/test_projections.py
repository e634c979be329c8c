from __future__ import annotations

import pytest
import torch

from understudy.errors import RecipeError
from understudy.models.projections import Projections


def states(size: int, count: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(2, 3, size) for _ in range(count))


def test_one_matrix_for_all() -> None:
    projections = Projections("shared", 4, 6, num_layers=2)
    embeddings, first, second = states(4, 3)
    carried, hidden = projections(embeddings, (first, second))
    (linear,) = projections.linears
    assert torch.equal(carried, linear(embeddings))
    assert torch.equal(hidden[1], linear(second))
    assert linear.bias.tolist() == [0.0] * 6


def test_one_matrix_for_each() -> None:
    projections = Projections("per-layer", 4, 6, num_layers=2)
    embeddings, first, second = states(4, 3)
    carried, hidden = projections(embeddings, (first, second))
    assert len(projections.linears) == 3
    assert torch.equal(carried, projections.linears[0](embeddings))
    assert torch.equal(hidden[1], projections.linears[2](second))


def test_none_where_widths_match() -> None:
    projections = Projections("none", 4, 4, num_layers=1)
    embeddings, first = states(4, 2)
    carried, hidden = projections(embeddings, (first,))
    assert carried is embeddings
    assert hidden == (first,)
    with pytest.raises(RecipeError, match=r"width of 4 is not its teacher's 6\. Use shared or per-layer"):
        Projections("none", 4, 6, num_layers=1)
