"""The time before the job in which a policy loads the files that it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.simulate.scenario import System

if TYPE_CHECKING:
    from numpy.typing import NDArray


def staging_s(system: System, kept_bytes: NDArray[np.int64]) -> float:
    """Returns the seconds that the slowest node takes to load its files from shared storage.

    kept_bytes: how much each node keeps in each storage class (nodes x classes). All nodes load at
    once, each as one rank does; a node fills one class after the other, and none faster than it can
    be written.
    """
    shared = system.shared
    incoming = shared.share_bytes_per_s(system.nodes) * shared.readers_per_rank
    rates = [min(incoming, float(each.write(each.threads))) for each in system.classes]
    return float((kept_bytes / np.array(rates)).sum(axis=1).max())
