"""Filling the storage classes of one rank, and what all placements check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

NOWHERE = 255  # instead of a class: the rank does not keep the file


def checked_capacities(capacities_bytes: ArrayLike) -> NDArray[np.int64]:
    """Returns bytes by rank and class. Raises ValueError for another shape, what is below 0, and
    more than 63 bits hold."""
    array = np.asarray(capacities_bytes)
    if array.ndim != 2 or array.dtype.kind not in "iu" or 0 in array.shape:
        raise ValueError(
            f"capacities_bytes are {array.dtype}{array.shape}; "
            "allowed are integers, ranks x classes"
        )
    if array.min() < 0 or array.shape[1] > NOWHERE:
        raise ValueError(
            f"capacities_bytes are {array.min()} and more in {array.shape[1]} classes; "
            f"allowed are 0 bytes and more in up to {NOWHERE}"
        )
    checks.total_bytes("capacities_bytes", array)
    return array.astype(np.int64, copy=False)


def fitting(sizes_bytes: NDArray[np.int64], free_bytes: int) -> int:
    """Returns how many files, from the first on, fit into so many bytes."""
    return int(np.searchsorted(np.cumsum(sizes_bytes), free_bytes, side="right"))


def fill(
    sizes_bytes: NDArray[np.int64], files: NDArray[np.intp], capacities_bytes: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Returns the class of each file (all files) on a rank that fills its classes one after the
    other with `files`, in that order; what is larger than a class is left for the next."""
    classes = np.full(len(sizes_bytes), NOWHERE, dtype=np.uint8)
    for number, capacity in enumerate(capacities_bytes.tolist()):
        possible = np.flatnonzero(sizes_bytes[files] <= capacity)
        taken = possible[: fitting(sizes_bytes[files[possible]], capacity)]
        classes[files[taken]] = number
        files = np.delete(files, taken)
    return classes
