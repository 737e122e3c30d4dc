"""Samplers of jobs with several ranks: torch's DistributedSampler, timm's repeated augmentation,
and accelerate's division of batches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.torch_samplers import randperm

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
    world_size-th entry of an order, from entry r on (registry.strided).

    set_epoch: whether the job calls sampler.set_epoch; else all epochs are like epoch 0. If
    sample_count is no multiple of world_size, the head of the order is repeated at its end, or with
    drop_last its end left out. Raises ValueError for arguments out of range. Source: torch 2.13
    utils/data/distributed.py; compared with it in tests."""
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
    world_size-th entry of one, from entry r on (registry.strided).

    Each sample of a permutation seeded with the epoch comes num_repeats times in a row, and only
    the head of that is read: about sample_count entries, so an epoch leaves many samples out.
    selected_round: sample_count is first rounded down to a multiple of it (0: not rounded).
    set_epoch: whether the job calls sampler.set_epoch; else all epochs are like epoch 0. Numbers of
    repeats that are no integers are not supported. Raises ValueError for arguments out of range.
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


def batch_sampler_shard(
    order: NDArray[Any],
    rank: int,
    world_size: int,
    *,
    batch_size: int,
    drop_last: bool = False,
    even_batches: bool = True,
) -> NDArray[Any]:
    """Returns the reads of a rank in an order: batch j is rank j % world_size's. The last round of
    batches is filled from the head of the order, left out with drop_last, or left short without
    even_batches. A single rank has no BatchSamplerShard: nothing is filled up for it.

    batch_size: of one rank; with split_batches, the batch of all divided by world_size. Returns an
    array of the same dtype. Raises ValueError for arguments out of range. Source: accelerate 1.15
    data_loader.py.
    """
    world_size = checks.integer("world_size", world_size, 1)
    rank = checks.integer("rank", rank, 0, world_size - 1)
    round_samples = checks.integer("batch_size", batch_size, 1) * world_size
    whole, rest = divmod(len(order), round_samples)
    tail = order[whole * round_samples :]
    drop_last = checks.flag("drop_last", drop_last)
    if checks.flag("even_batches", even_batches) and rest and not drop_last and world_size > 1:
        tail = np.concatenate((tail, np.resize(order[:round_samples], round_samples - rest)))
    own = slice(rank * batch_size, (rank + 1) * batch_size)
    rounds = order[: whole * round_samples].reshape(whole, round_samples)[:, own]
    return np.concatenate((rounds.ravel(), tail[own][: 0 if drop_last else None]))
