"""What the other ranks keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy.placement.fill import NOWHERE

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK_FILES = 1 << 16


def fastest_elsewhere(classes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns for each rank and file (of a placement) the fastest class in which another rank keeps
    it, or NOWHERE: uint8 (ranks x files)."""
    elsewhere = np.full_like(classes, NOWHERE)
    if len(classes) < 2:
        return elsewhere
    for at in range(0, classes.shape[1], _CHUNK_FILES):
        some = classes[:, at : at + _CHUNK_FILES]
        first, second = np.partition(some, 1, axis=0)[:2]
        elsewhere[:, at : at + _CHUNK_FILES] = np.where(some == first, second, first)
    return elsewhere
