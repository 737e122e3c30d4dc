"""How long it takes to load what a policy keeps before the job begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.simulate.scenario import System

if TYPE_CHECKING:
    from numpy.typing import NDArray


def staging_s(system: System, kept_bytes: NDArray[np.int64]) -> float:
    """Returns how long the slowest node loads its files from shared storage, one storage class
    after the other, each no faster than it can be written. kept_bytes: nodes x classes. A node
    reads as one rank does."""
    shared = system.shared
    incoming = shared.share_bytes_per_s(system.nodes) * shared.readers_per_rank
    rates = [min(incoming, float(each.write(each.threads))) for each in system.classes]
    return float((kept_bytes / np.array(rates)).sum(axis=1).max())
