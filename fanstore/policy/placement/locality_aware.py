"""Locality-aware loading (Yang and Cong 2019): the order is changed so that ranks read what they
keep. What they keep is first touch or a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.policy import checks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

NOBODY = -1  # instead of a rank: no rank keeps the file


def local_reads(
    order: ArrayLike, keepers: ArrayLike, world_size: int, batch_size: int
) -> NDArray[Any]:
    """Returns what each rank reads (ranks x reads): of each step of all ranks a rank gets the
    samples that it keeps, up to batch_size; the rest fills up those that have too few.

    order: of one epoch, whole steps of world_size * batch_size samples. keepers: the rank that
    keeps each file, or NOBODY. Raises ValueError for arguments that do not go together.
    """
    world_size = checks.integer("world_size", world_size, 1)
    step = world_size * checks.integer("batch_size", batch_size, 1)
    owners = checks.integers(keepers)
    if owners.ndim != 1 or owners.dtype.kind not in "iu":
        raise ValueError(f"keepers are {owners.dtype}{owners.shape}; allowed is one row of ranks")
    if owners.size and (owners.min() < NOBODY or owners.max() >= world_size):
        raise ValueError(f"keepers are {owners.min()} to {owners.max()} of {world_size} ranks")
    owners = owners.astype(np.int64, copy=False)
    samples = checks.reads("order", order, len(owners))
    if len(samples) % step:
        raise ValueError(f"order has {len(samples)} samples; allowed are multiples of {step}")
    steps = samples.reshape(-1, step)
    by_owner = np.argsort(owners[steps], axis=1, kind="stable")
    steps = np.take_along_axis(steps, by_owner, axis=1)
    kept_by = owners[steps]
    ranks = np.arange(NOBODY, world_size)
    before = np.stack([(kept_by < rank).sum(axis=1) for rank in ranks], axis=1)
    turn = np.arange(step) - np.take_along_axis(before, kept_by - NOBODY, axis=1)
    stays = (kept_by != NOBODY) & (turn < batch_size)
    rows = np.nonzero(stays)[0]
    found = np.empty_like(steps)
    free = np.ones(steps.shape, dtype=bool)
    places = kept_by[stays] * batch_size + turn[stays]
    found[rows, places] = steps[stays]
    free[rows, places] = False
    found[free] = steps[~stays]  # of each step as many are free as are left
    by_rank: NDArray[Any] = found.reshape(-1, world_size, batch_size).swapaxes(0, 1)
    return by_rank.reshape(world_size, -1)
