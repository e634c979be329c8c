"""transformers' Trainer with the order of rows that the design asks for, and with named losses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor, nn
from torch.utils.data import Sampler, SequentialSampler
from transformers import (
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from understudy.errors import TrainingError
from understudy.objectives.compose import weight_of, weighted_sum
from understudy.training.checkpoint import seal_checkpoint
from understudy.training.order import LengthGroupedSampler
from understudy.training.progress import FiguresInLines, FiguresOnTheBar

# B batch

EVALUATED = "eval_loss_"  # before a term's name, where it is logged

Terms = Callable[[nn.Module, Mapping[str, Tensor]], dict[str, Tensor]]
"""A student and a batch to its losses by name, loss_B each."""


class OrderedTrainer(Trainer):
    """Training rows in an order made of (seed, epoch) alone, evaluation rows in the given order.

    Trainer's own length grouping draws from the global random state, walks each group from long to
    short, and shuffles evaluation rows too, so that predictions come back in another order than
    their rows.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        if not self.args.disable_tqdm:
            self.add_callback(FiguresOnTheBar() if sys.stderr.isatty() else FiguresInLines())

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> Sampler[int] | None:
        dataset = self.train_dataset if train_dataset is None else train_dataset
        if self.args.train_sampling_strategy != "group_by_length":
            return super()._get_train_sampler(dataset)
        # The batch that every process sees together, so that they finish a step together.
        batch_size = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        assert isinstance(dataset, Dataset)  # what `encode` makes; Trainer's own type is wider
        return LengthGroupedSampler(dataset["length"][:], batch_size, seed)

    def _get_eval_sampler(self, eval_dataset: Any) -> Sampler[int] | None:
        return SequentialSampler(eval_dataset)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        self.accelerator.wait_for_everyone()  # each process writes its own random state
        if self.args.should_save:
            seal_checkpoint(Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}")


class LogTheEnd(TrainerCallback):
    """The last steps are logged too, also where a run is shorter than the steps between two logs."""

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.global_step >= state.max_steps:
            control.should_log = True


class DistillationTrainer(OrderedTrainer):
    """Trains on a weighted sum of named losses, one per example each (TinyBERT Eq. 6).

    Every term is logged by its name, as the mean since the last log. A loss that is not a number stops
    the run and names its rows. The teacher is none of this trainer's business: `terms` knows it.
    Batches must have `row`, the rows' numbers.
    """

    loss_is_scaled_for_ga = False  # a mean over the batch: Trainer divides by accumulation steps

    def __init__(self, *arguments: Any, terms: Terms, weights: Mapping[str, float], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.terms = terms
        self.weights = weights
        self.add_callback(LogTheEnd())
        self._sums: dict[str, Tensor] = {}
        self._num_batches = 0

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The mean of the batch's losses; in evaluation the model's own, against the labels."""
        rows = inputs.pop("row")
        if return_outputs:  # only evaluation asks for them
            return super().compute_loss(model, inputs, True, num_items_in_batch)
        terms = self.terms(model, inputs)
        loss_B = weighted_sum(terms, self.weights)
        if not torch.isfinite(loss_B).all():
            raise TrainingError(_describe_bad(terms, loss_B, rows, self.state.global_step))
        self._num_batches += 1
        for name, term_B in terms.items():
            mean = term_B.detach().mean()
            self._sums[name] = self._sums[name] + mean if name in self._sums else mean
        return loss_B.mean()

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Trainer's figures, and each term's mean since the last log."""
        if "loss" in logs and self._sums:
            means = torch.stack(list(self._sums.values())) / self._num_batches
            means = self.accelerator.reduce(means, reduction="mean")
            logs |= {f"loss_{name}": mean for name, mean in zip(self._sums, means.tolist(), strict=True)}
            self._sums, self._num_batches = {}, 0
        super().log(logs, start_time)


class LayerTrainer(DistillationTrainer):
    """One whose evaluation is the losses themselves, on rows that no step learns from."""

    def __init__(
        self, *arguments: Any, held_out: Callable[[nn.Module], dict[str, float]], **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.held_out = held_out

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Each term's mean over the held-out rows; every process computes all of them."""
        assert self.model is not None
        terms = self.held_out(self.model)
        losses = {f"{EVALUATED}{name}": value for name, value in terms.items()}
        losses["eval_loss"] = sum(weight_of(name, self.weights) * value for name, value in terms.items())
        self.log(losses)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, losses)
        return losses


def _describe_bad(terms: Mapping[str, Tensor], loss_B: Tensor, rows: Tensor, step: int) -> str:
    bad_B = ~torch.isfinite(loss_B)
    names = [name for name, term_B in terms.items() if not torch.isfinite(term_B).all()]
    shown = ", ".join(str(row) for row in rows[bad_B].tolist()[:10])
    return (
        f"after {step} steps the loss is not a number on {int(bad_B.sum())} of {len(rows)} rows (numbers in "
        f"the training set, from 0: {shown}); terms: {', '.join(names)}. If all rows of the batch are "
        "named, the learning rate is likely too high: lower it in the stage's training block. If a few "
        "are, look at them. The last checkpoint is from before."
    )
