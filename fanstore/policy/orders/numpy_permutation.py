"""Permutations that a program draws with NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks

if TYPE_CHECKING:
    from numpy.typing import NDArray


def numpy_default_rng(
    sample_count: int, first_epoch: int = 0, *, seed: int
) -> Iterator[NDArray[np.uint32]]:
    """numpy.random.default_rng(seed + epoch).permutation(sample_count), as uint32 (FFCV does so).

    The job's NumPy has to shuffle as this one does: its Generator promises no stream for ever.
    Raises ValueError for arguments out of range.
    """
    checks.sample_count(sample_count)
    seed = checks.integer("seed", seed, 0)
    first_epoch = checks.integer("first_epoch", first_epoch, 0)
    generators = (np.random.default_rng(seed + epoch) for epoch in count(first_epoch))
    return (each.permutation(sample_count).astype(np.uint32) for each in generators)


def numpy_random_state(
    sample_count: int, first_epoch: int = 0, *, seed: int
) -> Iterator[NDArray[np.uint32]]:
    """numpy.random.RandomState((seed + epoch) % 2**32).permutation(sample_count), as uint32.

    This stream is the same in all versions of NumPy. Raises ValueError for arguments out of range.
    """
    checks.sample_count(sample_count)
    seed = checks.integer("seed", seed, 0, 2**32 - 1)
    first_epoch = checks.integer("first_epoch", first_epoch, 0)
    generators = (np.random.RandomState((seed + epoch) % 2**32) for epoch in count(first_epoch))
    return (each.permutation(sample_count).astype(np.uint32) for each in generators)
