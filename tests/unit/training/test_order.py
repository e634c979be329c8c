from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from understudy.training.order import EndlessRows, LengthGroupedSampler, length_grouped_order, shuffled


@given(
    st.lists(st.integers(1, 512), min_size=1, max_size=300),
    st.integers(1, 16),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_every_row_once_and_only_seed_and_epoch_decide(
    lengths: list[int], batch_size: int, seed: int, epoch: int
) -> None:
    order = length_grouped_order(lengths, batch_size, seed, epoch)
    assert sorted(order.tolist()) == list(range(len(lengths)))
    np.random.seed(epoch)
    assert (length_grouped_order(lengths, batch_size, seed, epoch) == order).all()


def test_epochs_and_seeds_differ() -> None:
    lengths = list(range(100))
    orders = {
        tuple(length_grouped_order(lengths, 4, seed, epoch).tolist()) for seed in (0, 1) for epoch in (0, 1)
    }
    assert len(orders) == 4


def test_batches_are_of_like_length_and_in_no_order_of_length() -> None:
    lengths = np.random.default_rng(0).integers(1, 129, 6_400)
    batches = lengths[length_grouped_order(lengths, 32, seed=0, epoch=0)].reshape(-1, 32)
    padding = (batches.max(axis=1)[:, None] - batches).mean() / batches.mean()
    assert padding < 0.05
    longest = batches.max(axis=1)
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.2


def test_the_sampler_follows_the_epoch() -> None:
    sampler = LengthGroupedSampler([1, 2, 3, 4, 5, 6], batch_size=2, seed=0)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) == length_grouped_order([1, 2, 3, 4, 5, 6], 2, 0, 1).tolist()
    assert len(sampler) == 6


@given(st.integers(1, 3_000), st.integers(0, 2**40), st.integers(0, 50))
def test_an_order_that_is_never_written_down_has_every_row_once(size: int, seed: int, epoch: int) -> None:
    assert sorted(shuffled(place, size, seed, epoch) for place in range(size)) == list(range(size))


def test_such_orders_look_random() -> None:
    size = 4_000
    orders = [
        np.array([shuffled(place, size, seed, epoch) for place in range(size)])
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    for number, order in enumerate(orders):
        for other in [np.arange(size), *orders[number + 1 :]]:
            assert abs(np.corrcoef(order, other)[0, 1]) < 5 / size**0.5
        # A row is followed by any other.
        assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 5 / size**0.5
        assert (np.diff(order) == 1).sum() < 10


def test_endless_rows_go_on_into_the_next_epoch() -> None:
    rows = EndlessRows(list("abcde"), 12, seed=3)
    read = [rows[place] for place in range(len(rows))]
    assert sorted(read[:5]) == sorted(read[5:10]) == list("abcde")
    assert read[:5] != read[5:10]
