"""accelerate.data_loader.SeedableRandomSampler: the default of Hugging Face's Trainer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.randperm import randperm

if TYPE_CHECKING:
    from numpy.typing import NDArray


def seedable_random_sampler(
    sample_count: int, first_epoch: int = 0, *, seed: int
) -> Iterator[NDArray[np.uint32]]:
    """The orders of all ranks together (batch_sampler_shard says what one reads): a permutation
    seeded with seed + epoch. seed: data_seed, or what the job gave torch.manual_seed (Trainer: 42).

    Raises ValueError for arguments out of range. Source: accelerate 1.15 data_loader.py.
    """
    checks.sample_count(sample_count)
    first_epoch = checks.integer("first_epoch", first_epoch, 0)
    seed = checks.seed_of_epochs(seed, first_epoch)
    return (randperm(sample_count, seed + epoch) for epoch in count(first_epoch))
