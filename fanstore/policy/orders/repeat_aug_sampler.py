"""timm's RepeatAugSampler: repeated augmentation, as DeiT is trained with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.randperm import randperm

if TYPE_CHECKING:
    from numpy.typing import NDArray


def repeat_aug_sampler(
    sample_count: int,
    first_epoch: int = 0,
    *,
    world_size: int,
    num_repeats: int = 3,
    selected_round: int = 256,
    shuffle: bool = True,
    set_epoch: bool = True,
) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over the orders of all ranks together. Rank r reads each
    world_size-th entry of one, from entry r on (reads.strided).

    Each sample of a permutation seeded with the epoch comes num_repeats times in a row, and of that
    the head is read: about sample_count entries, so that an epoch leaves many samples out.
    selected_round: sample_count is rounded down to a multiple of it first (0: it is not).
    set_epoch: whether the job calls sampler.set_epoch; else all epochs are like epoch 0. A number
    of repeats that is no integer is not known here. Raises ValueError for arguments out of range.
    Source: timm 1.0.31 data/distributed_sampler.py with its selected_ratio of 0.
    """
    checks.sample_count(sample_count)
    world_size = checks.integer("world_size", world_size, 1)
    repeats = checks.integer("num_repeats", num_repeats, 1)
    rounding = checks.integer("selected_round", selected_round, 0)
    first_epoch = checks.integer("first_epoch", first_epoch, 0)
    shuffle, set_epoch = checks.flag("shuffle", shuffle), checks.flag("set_epoch", set_epoch)
    if rounding and sample_count >= rounding:
        rounded = sample_count // rounding * rounding
        selected = rounded // checks.integer("world_size", world_size, 1, rounded)
    else:
        selected = -(-sample_count // world_size)
    total = world_size * selected

    def order(epoch: int) -> NDArray[np.uint32]:
        listed = np.arange(sample_count, dtype=np.uint32)
        once = randperm(sample_count, epoch) if shuffle else listed
        return np.resize(np.repeat(once[: -(-total // repeats)], repeats), total)

    return (order(epoch if set_epoch else 0) for epoch in count(first_epoch))
