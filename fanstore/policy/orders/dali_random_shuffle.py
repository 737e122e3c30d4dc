"""DALI's readers.file(random_shuffle=True)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.mt19937 import Mt19937
from fanstore.policy.orders.shuffles import libstdcxx

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SEED = 524287  # whatever the reader's own seed, which chooses among what is in memory


def dali_random_shuffle(sample_count: int, first_epoch: int = 0) -> Iterator[NDArray[np.uint32]]:
    """The order in which files are read, of all ranks together and the same each epoch
    (rotating_shard says what one rank reads). Sample numbers are places in the sorted listing.

    Raises ValueError for arguments out of range. Source: DALI's file label loader, std::shuffle
    with mt19937; compared with DALI 2.4. shuffle_after_epoch is another order, not known here.
    """
    checks.integer("first_epoch", first_epoch, 0)
    order = libstdcxx(checks.sample_count(sample_count), Mt19937(_SEED))
    order.setflags(write=False)  # all epochs share it
    return repeat(order)


def rotating_shard(
    order: NDArray[Any], rank: int, world_size: int, *, epoch: int, stick_to_shard: bool = False
) -> NDArray[Any]:
    """What a rank reads of an order: one of world_size stretches, each epoch the next one
    unless stick_to_shard. Returns a part of `order`. ValueError for arguments out of range."""
    world_size = checks.integer("world_size", world_size, 1)
    shard = checks.integer("rank", rank, 0, world_size - 1)
    epoch = checks.integer("epoch", epoch, 0)
    if not checks.flag("stick_to_shard", stick_to_shard):
        shard = (shard + epoch) % world_size
    return order[len(order) * shard // world_size : len(order) * (shard + 1) // world_size]
