"""How often samples are read, and when again, against counting one by one."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from fanstore.policy.next_use import NEVER, first_places, frequencies, next_uses
from fanstore.policy.orders.reads import by_rank
from fanstore.policy.orders.registry import orders

RNG = np.random.default_rng(15)


def test_frequencies_count_what_each_rank_reads() -> None:
    epochs = [[RNG.integers(0, 20, RNG.integers(0, 30)) for _ in range(3)] for _ in range(5)]
    found = frequencies(20, epochs)
    assert found.dtype == np.uint16
    for rank in range(3):
        reads = [sample for ranks in epochs for sample in ranks[rank].tolist()]
        assert found[rank].tolist() == [reads.count(sample) for sample in range(20)]


def test_frequencies_of_an_order_add_up() -> None:
    coming = orders("torch-distributed", 101, 2, world_size=4, drop_last=True)
    found = frequencies(101, [by_rank(next(coming), 4) for _ in range(5)])
    assert found.sum(axis=1).tolist() == [5 * 25] * 4
    assert found.sum(axis=0).max() <= 5


def test_frequencies_refuse_what_does_not_go_together() -> None:
    with pytest.raises(ValueError, match="epochs is empty"):
        frequencies(4, [])
    with pytest.raises(ValueError, match="an epoch has 1 ranks; those before had 2"):
        frequencies(4, [[[0], [1]], [[2]]])
    with pytest.raises(ValueError, match="has samples 0 to 4 of 4"):
        frequencies(4, [[[0, 4]]])
    with pytest.raises(ValueError, match="read more than 65535 times"):
        frequencies(1, [[np.zeros(40_000, dtype=int)]] * 2)


def one_by_one(reads: list[int], following: list[int]) -> list[int]:
    stream = reads + following
    return [
        next((at for at in range(here + 1, len(stream)) if stream[at] == sample), NEVER)
        for here, sample in enumerate(reads)
    ]


@pytest.mark.parametrize("length", (0, 1, 2, 10, 40))
@pytest.mark.parametrize("samples", (1, 10, 1000))
def test_next_uses_with_repeats(samples: int, length: int) -> None:
    reads = RNG.integers(0, samples, length)
    following = RNG.integers(0, samples, 30)
    expected = one_by_one(reads.tolist(), following.tolist())
    assert next_uses(reads, following, samples).tolist() == expected


def test_next_uses_of_permutations() -> None:
    reads, following = RNG.permutation(50)[:30], RNG.permutation(50)[:30]
    found = next_uses(reads, following, 50)
    assert found.dtype == np.uint32
    assert found.tolist() == one_by_one(reads.tolist(), following.tolist())
    assert found.min() >= 30


def test_next_uses_take_no_more_memory_than_they_say() -> None:
    reads, following = (RNG.permutation(100_000).astype(np.uint32) for _ in range(2))
    next_uses(reads, following, 100_000)
    tracemalloc.start()
    try:
        next_uses(reads, following, 100_000)
        assert tracemalloc.get_traced_memory()[1] < 17.2 * 100_000
    finally:
        tracemalloc.stop()


def test_first_places_invert_a_permutation() -> None:
    order = RNG.permutation(50)
    assert np.array_equal(order[first_places(order, 50)], np.arange(50))
    assert first_places([2, 0, 2], 4).tolist() == [1, NEVER, 0, NEVER]
    with pytest.raises(ValueError, match="reads has samples 0 to 4 of 4"):
        first_places([0, 4], 4)
    with pytest.raises(ValueError, match="allowed is one row of integers"):
        next_uses([0.5], [0], 4)
