"""First touch: the dynamic data store of LBANN (Jacobs et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.placement.fill import checked_capacities, fill

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def first_touch(
    sizes_bytes: ArrayLike, reads: Sequence[ArrayLike], capacities_bytes: ArrayLike
) -> NDArray[np.uint8]:
    """Returns a placement in which the rank that first reads a file keeps it, while it has room.

    reads: what each rank reads in the first epoch. Who of two ranks is first is decided by the
    number of files that each read before, then by rank. Raises ValueError for arguments that do
    not go together. (LBANN itself fails where a dataset exceeds the memory of all ranks.)
    """
    sizes = checks.sizes("sizes_bytes", sizes_bytes)
    capacities = checked_capacities(capacities_bytes)
    if len(reads) != len(capacities):
        raise ValueError(f"reads are of {len(reads)} ranks, capacities_bytes of {len(capacities)}")
    streams = [checks.reads("reads", each, len(sizes)) for each in reads]
    turns = [np.arange(len(each)) * len(streams) + rank for rank, each in enumerate(streams)]
    first = np.full(len(sizes), np.iinfo(np.int64).max)
    for turn, stream in zip(turns, streams, strict=True):
        np.minimum.at(first, stream, turn)
    own = [stream[first[stream] == turn] for turn, stream in zip(turns, streams, strict=True)]
    return np.stack(
        [fill(sizes, files, of_rank) for files, of_rank in zip(own, capacities, strict=True)]
    )
