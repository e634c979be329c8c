from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from understudy.errors import RecipeError
from understudy.models.projections import PROJECTIONS, Projections, saved_projections


def states(size: int, count: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(2, 3, size) for _ in range(count))


def test_one_matrix_for_all() -> None:
    projections = Projections("shared", 4, 6, num_states=3)
    given = states(4, 3)
    carried = projections(given)
    (linear,) = projections.linears
    assert all(torch.equal(one, linear(other)) for one, other in zip(carried, given, strict=True))
    assert linear.bias.tolist() == [0.0] * 6


def test_one_matrix_for_each() -> None:
    projections = Projections("per-layer", 4, 6, num_states=3)
    given = states(4, 3)
    carried = projections(given)
    assert len(projections.linears) == 3
    for linear, one, other in zip(projections.linears, carried, given, strict=True):
        assert torch.equal(one, linear(other))


def test_none_where_widths_match() -> None:
    projections = Projections("none", 4, 4, num_states=2)
    given = states(4, 2)
    assert projections(given) == given
    with pytest.raises(RecipeError, match=r"width of 4 is not its teacher's 6\. .*projection=shared"):
        Projections("none", 4, 6, num_states=2)


@pytest.mark.parametrize("kind", ["shared", "per-layer"])
def test_channels_of_a_cut_are_put_back_in_their_places(kind: str) -> None:
    teacher = torch.randn(2, 3, 6)
    channels = torch.tensor([0, 2, 5])
    projections = Projections(kind, 3, 6, num_states=2, channels=channels)
    first, second = projections([teacher[..., channels], teacher[..., channels]])
    expected = torch.zeros_like(teacher)
    expected[..., channels] = teacher[..., channels]
    assert torch.equal(first, expected)
    assert torch.equal(second, expected)


def test_learnt_matrices_go_on_where_they_fit(tmp_path: Path) -> None:
    learnt = Projections("shared", 2, 3, 2)
    folder = tmp_path / "student"
    folder.mkdir()
    assert saved_projections(str(folder)) == {}
    assert saved_projections(None) == {}
    save_file(learnt.state_dict(), folder / PROJECTIONS)
    drawn = Projections("shared", 2, 3, 2)
    assert not torch.equal(drawn.linears[0].weight, learnt.linears[0].weight)
    assert drawn.continue_from(saved_projections(str(folder)))
    assert torch.equal(drawn.linears[0].weight, learnt.linears[0].weight)
    for other in (Projections("shared", 2, 4, 2), Projections("per-layer", 2, 3, 2)):
        assert not other.continue_from(saved_projections(str(folder)))
    assert not drawn.continue_from({})
