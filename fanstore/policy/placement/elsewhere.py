"""What the other ranks keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy.placement.fill import NOWHERE

if TYPE_CHECKING:
    from numpy.typing import NDArray


def fastest_elsewhere(classes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns for each rank and file (of a placement) the fastest class in which another rank keeps
    it, or NOWHERE: uint8 (ranks x files)."""
    if len(classes) < 2:
        return np.full_like(classes, NOWHERE)
    two = np.partition(classes, 1, axis=0)[:2]
    elsewhere: NDArray[np.uint8] = np.where(classes == two[0], two[1], two[0])
    return elsewhere
