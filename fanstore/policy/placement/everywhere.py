"""Everything everywhere: each rank keeps what it can, whatever the others keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.placement.fill import checked_capacities, fill

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def everywhere(sizes_bytes: ArrayLike, capacities_bytes: ArrayLike) -> NDArray[np.uint8]:
    """Returns a placement in which each rank fills its classes with the files as they are listed,
    from the first on. Raises ValueError for sizes or capacities that are no numbers of bytes."""
    sizes = checks.sizes("sizes_bytes", sizes_bytes)
    files = np.arange(len(sizes))
    capacities = checked_capacities(capacities_bytes)
    return np.stack([fill(sizes, files, of_rank) for of_rank in capacities])
