"""The order of rows in an epoch, as a pure function of (seed, epoch)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset, Sampler

# Rows are sorted by length within groups of this many batches: enough for almost no padding, and few enough
# that batches still differ between epochs.
BATCHES_PER_GROUP = 100


def length_grouped_order(
    lengths: Sequence[int] | NDArray[np.int64], batch_size: int, seed: int, epoch: int
) -> NDArray[np.int64]:
    """Return every row once, with similar lengths within a batch and batches in random order.

    The remainder that does not fill a batch comes last, so that all other batches are full.

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
    """`length_grouped_order` for a DataLoader; Trainer sets the epoch."""

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


def shuffled(place: int, size: int, seed: int, epoch: int) -> int:
    """Return the row at a place of an epoch's order, without materialising the order.

    Walks a Feistel network over the next power of four until it lands on a row: a bijection for any size that
    needs no memory, so that 1e10 rows cost as little as ten.

    >>> sorted(shuffled(place, 5, seed=1, epoch=0) for place in range(5))
    [0, 1, 2, 3, 4]
    """
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    low = (1 << half) - 1
    row = place
    while True:
        left, right = row >> half, row & low
        for number in range(_ROUNDS):
            left, right = right, left ^ (_mix(right, (seed << 32) + (epoch << 8) + number) & low)
        row = (left << half) | right
        if row < size:
            return row


_ROUNDS = 6
_64_BITS = (1 << 64) - 1


def _mix(value: int, key: int) -> int:
    """Mix two numbers to 64 pseudo-random bits (the finaliser of SplitMix64, twice)."""
    mixed = key & _64_BITS
    for part in (value, key >> 64):
        mixed = (mixed + part + 0x9E3779B97F4A7C15) & _64_BITS
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _64_BITS
        mixed ^= mixed >> 31
    return mixed


class EndlessRows(Dataset[Any]):
    """Rows of one epoch after another, each epoch in its own order, as one long sequence.

    Read from start to end, every step has a full batch, every row comes once per epoch, and an interrupted
    run resumes at the next row, on any number of processes.

    Args:
        rows: a sequence of rows.
        length: how many rows are read in total.
    """

    def __init__(self, rows: Any, length: int, seed: int) -> None:
        self.rows = rows
        self.length = length
        self.seed = seed

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: int) -> Any:
        epoch, inside = divmod(place, len(self.rows))
        return self.rows[shuffled(inside, len(self.rows), self.seed, epoch)]
