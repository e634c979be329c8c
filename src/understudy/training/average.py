"""The mean of a model's weights over the last steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from understudy.errors import TrainingError

AVERAGE = "average.safetensors"  # in a checkpoint
_COUNT = "count"


class WeightAverage(TrainerCallback):
    """A callback that ends training with the mean of the weights after each of the last steps.

    `DistillationTrainer` saves the mean with its checkpoints, so a resumed run ends in the same weights.

    Args:
        share: the share of the steps to average over, e.g. 0.5 for the last half.
    """

    def __init__(self, share: float) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {share}")
        self.share = share
        self.count = 0
        self.means: dict[str, Tensor] = {}

    def first_step(self, max_steps: int) -> int:
        """Return the first step that counts; steps are numbered from 1.

        >>> WeightAverage(0.5).first_step(10), WeightAverage(0.1).first_step(3)
        (6, 3)
        """
        return max_steps - max(1, round(self.share * max_steps + 1e-9)) + 1

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.count, self.means = 0, {}
        if state.global_step >= self.first_step(state.max_steps):  # resumed
            file = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}" / AVERAGE
            if not file.is_file():
                raise TrainingError(
                    f"{file.parent} has no mean of the weights. Resume from a checkpoint that a "
                    f"DistillationTrainer with the same WeightAverage wrote to {args.output_dir}."
                )
            saved = load_file(file)
            self.count, self.means = int(saved.pop(_COUNT)), saved

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.global_step < self.first_step(state.max_steps):
            return
        self.count += 1
        for name, weight in _trained(kwargs["model"]).items():
            if name not in self.means:
                self.means[name] = weight.detach().float().clone()
            else:
                mean = self.means[name].to(weight.device)
                self.means[name] = mean.lerp_(weight.detach().float(), 1 / self.count)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        with torch.no_grad():
            for name, weight in _trained(kwargs["model"]).items() if self.means else ():
                weight.copy_(self.means[name])

    def save(self, checkpoint: Path) -> None:
        """Write the mean so far to a checkpoint."""
        if self.count:
            means = {name: mean.contiguous() for name, mean in self.means.items()}
            save_file({**means, _COUNT: torch.tensor(self.count)}, checkpoint / AVERAGE)


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
