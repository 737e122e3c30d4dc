"""How often samples are read, and when again, against counting one by one."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from fanstore.policy.next_use import NEVER, first_places, frequencies
from fanstore.policy.orders.registry import orders, strided

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
    found = frequencies(
        101, [[strided(order, rank, 4) for rank in range(4)] for order in islice(coming, 5)]
    )
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


def test_first_places_invert_a_permutation() -> None:
    order = RNG.permutation(50)
    assert np.array_equal(order[first_places(order, 50)], np.arange(50))
    assert first_places([2, 0, 2], 4).tolist() == [1, NEVER, 0, NEVER]
    with pytest.raises(ValueError, match="reads has samples 0 to 4 of 4"):
        first_places([0, 4], 4)
    with pytest.raises(ValueError, match="allowed is one row of integers"):
        first_places([0.5], 4)
