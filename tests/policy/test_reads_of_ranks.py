"""What ranks read, by the name of an order."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from fanstore.policy.next_use import frequencies
from fanstore.policy.orders.other_frameworks import rotating_shard
from fanstore.policy.orders.registry import orders, reads_of_ranks, strided


def first_two(name: str, **parameters: Any) -> list[list[list[int]]]:
    epochs = islice(reads_of_ranks(name, 50, 3, 4, **parameters), 2)
    return [[reads.tolist() for reads in ranks] for ranks in epochs]


def test_each_order_is_divided_as_its_framework_does() -> None:
    order = next(orders("torch-distributed", 50, 5, world_size=3, seed=2, drop_last=True))
    found = first_two("torch-distributed", seed=2, drop_last=True)
    assert found[1] == [strided(order, rank, 3).tolist() for rank in range(3)]

    order = next(orders("dali-shuffle", 50))
    assert first_two("dali-shuffle")[1][0] == rotating_shard(order, 0, 3, epoch=5).tolist()
    stuck = first_two("dali-shuffle", stick_to_shard=True)
    assert stuck[0] == stuck[1]


def test_one_rank_reads_all_of_any_order() -> None:
    (reads,) = next(reads_of_ranks("torch-random", 50, 1, seed=3))
    assert np.array_equal(reads, next(orders("torch-random", 50, seed=3)))


def test_frequencies_take_what_ranks_read() -> None:
    epochs = islice(reads_of_ranks("torch-distributed", 50, 5), 10)
    assert (frequencies(50, epochs).sum(axis=0) == 10).all()


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    (
        ("random", {}, "order is 'random'; allowed are"),
        ("torch-random", {"seed": 1}, "torch-random is of 3 ranks; allowed is 1, or one of"),
        ("torch-distributed", {"batch_size": 3}, "no parameter 'batch_size'; allowed are seed"),
        ("dali-shuffle", {"epoch": 3}, "no parameter 'epoch'; allowed are stick_to_shard"),
        ("dali-shuffle", {"stick_to_shard": None}, "stick_to_shard is None; allowed are true and"),
    ),
)
def test_bad_arguments_are_refused_at_once(
    name: str, parameters: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        reads_of_ranks(name, 50, 3, **parameters)


@pytest.mark.parametrize(("world_size", "first_epoch"), ((0, 0), (1, -1)))
def test_bad_numbers_are_refused_at_once(world_size: int, first_epoch: int) -> None:
    with pytest.raises(ValueError, match="allowed are integers"):
        reads_of_ranks("sequential", 50, world_size, first_epoch)
