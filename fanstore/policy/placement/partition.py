"""Partition: CoorDL's partitioned MinIO cache (Mohan et al. 2021, section 6.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.next_use import first_places
from fanstore.policy.placement.fill import checked_capacities, fill

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def partition(
    sizes_bytes: ArrayLike, order: ArrayLike, capacities_bytes: ArrayLike
) -> NDArray[np.uint8]:
    """Returns a placement in which no file is kept by two ranks.

    The files are listed as they first come in `order` (such as the first epoch's), and after them
    those that it leaves out. Each rank gets a stretch of that list, in proportion to its capacity,
    and keeps the head of its stretch, as far as it has room.

    Raises ValueError for files beyond those with a size, and for capacities that are all 0.
    """
    sizes = checks.sizes("sizes_bytes", sizes_bytes)
    capacities = checked_capacities(capacities_bytes)
    reads = checks.reads("order", order, len(sizes))
    files = np.arange(len(sizes))
    if len(files):
        files = np.argsort(first_places(reads, len(files)), kind="stable")
    upto = np.cumsum(capacities.sum(axis=1))
    if not upto[-1]:
        raise ValueError("capacities_bytes are all 0; allowed is more than 0 on one rank")
    total = np.cumsum(sizes[files])
    due = upto[:-1] / upto[-1] * (total[-1] if len(total) else 0)
    stretches = np.split(files, np.searchsorted(total, due, side="right"))
    return np.stack(
        [fill(sizes, own, of_rank) for own, of_rank in zip(stretches, capacities, strict=True)]
    )
