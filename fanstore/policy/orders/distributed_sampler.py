"""torch.utils.data.DistributedSampler: also that of Lightning, timm, torchvision's references,
Composer and DeepSpeed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.randperm import randperm

if TYPE_CHECKING:
    from numpy.typing import NDArray


def distributed_sampler(
    sample_count: int,
    first_epoch: int = 0,
    *,
    world_size: int,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    set_epoch: bool = True,
) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over the orders of all ranks together. Rank r reads each
    world_size-th entry of one, from entry r on (reads.strided).

    set_epoch: whether the job calls sampler.set_epoch; else all epochs are like epoch 0. Where
    sample_count is no multiple of world_size, the head of the order is repeated at its end, or
    with drop_last its end left out. Raises ValueError for arguments out of range. Source: torch
    2.13 utils/data/distributed.py; compared with it in tests.
    """
    checks.sample_count(sample_count)
    world_size = checks.integer("world_size", world_size, 1)
    first_epoch = checks.integer("first_epoch", first_epoch, 0)
    shuffle, set_epoch = checks.flag("shuffle", shuffle), checks.flag("set_epoch", set_epoch)
    seed = checks.seed(seed)
    if shuffle and set_epoch:
        checks.seed_of_epochs(seed, first_epoch)
    drop_last = checks.flag("drop_last", drop_last)
    total = sample_count // world_size if drop_last else -(-sample_count // world_size)
    total *= world_size

    def order(epoch: int) -> NDArray[np.uint32]:
        if not shuffle:
            return np.resize(np.arange(sample_count, dtype=np.uint32), total)
        return np.resize(randperm(sample_count, seed + epoch), total)

    return (order(epoch if set_epoch else 0) for epoch in count(first_epoch))
