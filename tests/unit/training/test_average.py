"""The mean of the weights: by hand, and in a trainer that is resumed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from understudy.errors import RecipeError
from understudy.recipe.recipe import Recipe
from understudy.training.average import AVERAGE, WeightAverage


def take_steps(average: WeightAverage, model: nn.Linear, steps: range, max_steps: int, folder: Path) -> None:
    """Set the weight to the number of each step."""
    args: Any = SimpleNamespace(output_dir=str(folder))
    for step in steps:
        state: Any = SimpleNamespace(global_step=step, max_steps=max_steps)
        model.weight.data.fill_(step)
        average.on_step_end(args, state, None, model=model)  # type: ignore[arg-type]


def begin(average: WeightAverage, step: int, max_steps: int, folder: Path) -> None:
    state: Any = SimpleNamespace(global_step=step, max_steps=max_steps)
    average.on_train_begin(SimpleNamespace(output_dir=str(folder)), state, None)  # type: ignore[arg-type]


def test_the_mean_of_the_last_half_by_hand(tmp_path: Path) -> None:
    model, average = nn.Linear(1, 1, bias=False), WeightAverage(0.5)
    begin(average, 0, 6, tmp_path)
    take_steps(average, model, range(1, 7), 6, tmp_path)
    average.on_train_end(None, None, None, model=model)  # type: ignore[arg-type]
    assert model.weight.item() == pytest.approx((4 + 5 + 6) / 3)


@pytest.mark.parametrize("stop", [2, 3, 5])
def test_resumed_it_is_the_same(stop: int, tmp_path: Path) -> None:
    model, first = nn.Linear(1, 1, bias=False), WeightAverage(0.5)
    begin(first, 0, 6, tmp_path)
    take_steps(first, model, range(1, stop + 1), 6, tmp_path)
    checkpoint = tmp_path / f"checkpoint-{stop}"
    checkpoint.mkdir()
    first.save(checkpoint)
    assert (checkpoint / AVERAGE).exists() == (stop > 3)
    second = WeightAverage(0.5)
    begin(second, stop, 6, tmp_path)
    take_steps(second, model, range(stop + 1, 7), 6, tmp_path)
    second.on_train_end(None, None, None, model=model)  # type: ignore[arg-type]
    assert model.weight.item() == pytest.approx(5.0)


def test_what_is_not_trained_is_left_alone(tmp_path: Path) -> None:
    model, average = nn.Linear(1, 1), WeightAverage(1.0)
    assert model.bias is not None
    model.bias.requires_grad_(False).fill_(7.0)
    begin(average, 0, 2, tmp_path)
    take_steps(average, model, range(1, 3), 2, tmp_path)
    average.on_train_end(None, None, None, model=model)  # type: ignore[arg-type]
    assert (model.weight.item(), model.bias.item()) == (1.5, 7.0)
    assert torch.is_tensor(average.means["weight"])


def test_it_refuses_what_undoes_it() -> None:
    with pytest.raises(RecipeError, match=r"prediction\.average has no effect with .*load_best_model_at_end"):
        Recipe.from_mapping(
            {
                "task": "mrpc",
                "method": "tinybert",
                "prediction": {
                    "average": 0.5,
                    "training": {"load_best_model_at_end": True, "eval_strategy": "epoch"},
                },
            }
        )
    with pytest.raises(ValueError, match="share must be above 0"):
        WeightAverage(0.0)
