"""transformers' Trainer with the order of rows that the design asks for."""

from __future__ import annotations

from typing import Any

from datasets import Dataset
from torch.utils.data import Sampler, SequentialSampler
from transformers import Trainer

from understudy.training.order import LengthGroupedSampler


class OrderedTrainer(Trainer):
    """Training rows in an order made of (seed, epoch) alone, evaluation rows in the given order.

    Trainer's own length grouping draws from the global random state, walks each group from long to
    short, and shuffles evaluation rows too, so that predictions come back in another order than
    their rows.
    """

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
