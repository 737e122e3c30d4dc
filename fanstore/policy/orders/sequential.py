"""The order of the listing: shuffle=False, and most validation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks

if TYPE_CHECKING:
    from numpy.typing import NDArray


def sequential(sample_count: int, first_epoch: int = 0) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator: in each epoch all samples, as they are listed. Raises ValueError
    for arguments out of range."""
    checks.integer("first_epoch", first_epoch, 0)
    order = np.arange(checks.sample_count(sample_count), dtype=np.uint32)
    order.setflags(write=False)  # all epochs share it
    return repeat(order)
