"""The order of rows in an epoch, as a pure function of (seed, epoch)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

# Rows are sorted by length within groups of this many batches: enough for nearly no padding, few
# enough that an epoch's batches still differ from the last one's.
BATCHES_PER_GROUP = 100


def length_grouped_order(
    lengths: Sequence[int] | NDArray[np.int64], batch_size: int, seed: int, epoch: int
) -> NDArray[np.int64]:
    """Every row once, neighbours of a batch alike in length, batches in random order.

    The rest that does not fill a batch comes last, so that every other batch is whole.

    >>> sorted(length_grouped_order([3, 9, 3, 9, 5], batch_size=2, seed=0, epoch=0).tolist())
    [0, 1, 2, 3, 4]
    """
    lengths_array = np.asarray(lengths)
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths_array))
    num_full = len(order) // batch_size * batch_size
    full, rest = order[:num_full], order[num_full:]
    group = batch_size * BATCHES_PER_GROUP
    batches = []
    for start in range(0, num_full, group):
        part = full[start : start + group]
        part = part[np.argsort(lengths_array[part], kind="stable")]
        batches.append(part.reshape(-1, batch_size))
    if not batches:
        return rest
    shuffled = generator.permutation(np.concatenate(batches))
    return np.concatenate([shuffled.reshape(-1), rest])


class LengthGroupedSampler(Sampler[int]):
    """`length_grouped_order` for a DataLoader; Trainer tells it the epoch."""

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(length_grouped_order(self.lengths, self.batch_size, self.seed, self.epoch).tolist())

    def __len__(self) -> int:
        return len(self.lengths)
