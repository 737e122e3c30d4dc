"""Says in which class the other ranks keep each file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy.placement.fill import NOWHERE

if TYPE_CHECKING:
    from numpy.typing import NDArray


def fastest_elsewhere(classes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns for each rank and file (of a placement) the fastest class in which another rank keeps
    it, or NOWHERE: uint8 (ranks x files)."""
    fastest = np.full(classes.shape[1:], NOWHERE, dtype=np.uint8)
    second = fastest.copy()
    for row in classes:
        np.minimum(second, np.maximum(fastest, row), out=second)
        np.minimum(fastest, row, out=fastest)
    elsewhere = np.empty_like(classes)
    for row, out in zip(classes, elsewhere, strict=True):
        out[:] = np.where(row == fastest, second, fastest)
    return elsewhere
