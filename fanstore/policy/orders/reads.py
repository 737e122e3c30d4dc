"""From an order to what each rank and each worker of a DataLoader reads.

An order may be an array of any integer type; what is returned is of the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.policy import checks

if TYPE_CHECKING:
    from numpy.typing import NDArray


def strided(order: NDArray[Any], rank: int, world_size: int) -> NDArray[Any]:
    """Returns what a rank reads of a DistributedSampler's order: each world_size-th entry, from
    `rank` on. What all ranks read in one step is a stretch of the order."""
    world_size = checks.integer("world_size", world_size, 1)
    return order[checks.integer("rank", rank, 0, world_size - 1) :: world_size]


def by_rank(order: NDArray[Any], world_size: int) -> list[NDArray[Any]]:
    """Returns one array for each rank: what it reads of a DistributedSampler's order."""
    world_size = checks.integer("world_size", world_size, 1)
    return [strided(order, rank, world_size) for rank in range(world_size)]


def of_worker(
    reads: NDArray[Any], worker: int, workers: int, *, batch_size: int, drop_last: bool = False
) -> NDArray[Any]:
    """What a worker of a DataLoader opens, in that order, of what its rank reads in an epoch.

    Batch b is worker b % workers', from worker 0 on in each epoch (not with in_order=False).
    """
    workers = checks.integer("workers", workers, 1)
    worker = checks.integer("worker", worker, 0, workers - 1)
    whole, rest = divmod(len(reads), checks.integer("batch_size", batch_size, 1))
    batches = reads[: whole * batch_size].reshape(whole, batch_size)[worker::workers].ravel()
    if checks.flag("drop_last", drop_last) or not rest or whole % workers != worker:
        return batches
    return np.concatenate((batches, reads[whole * batch_size :]))
