"""Divides a dataset that does not fit on one local disk among the ranks.

CoorDL's partitioned MinIO (Mohan et al., section 4.2): the records, in the order in which they lie
in the packs, are divided among the ranks so that all disks fill evenly; the rank that keeps a
record reads it once from the shared file system. Every rank computes the same division by itself.
Pure apart from NumPy.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

PAGE_BYTES = 4096
# The block cache has room for content that takes so much more in whole pages (storage/mounts.c).
_ROUNDED_MOST = 1.25


@dataclass(frozen=True)
class Shares:
    """The share of each rank in one dataset. A position is a byte offset in the divided packs, laid
    one after the other.

    bounds: rank r keeps the records from position bounds[r] to bounds[r + 1] on its disk; records
    behind the last bound, and records of more than largest_bytes, are on no disk. memory_bounds:
    like bounds, for the records on no disk and the ranks' memories. own: the ids of this rank's
    records, in the order in which they are fetched; kept_bytes: bytes that each rank keeps on disk;
    memory_kept_bytes: in memory; covered_bytes: content on any disk; needed_bytes: of all records;
    copy_bytes: room on this rank's disk for records of others.
    """

    bounds: tuple[int, ...]
    memory_bounds: tuple[int, ...]
    largest_bytes: int
    own: Any  # NDArray of u64, or () where NumPy is not loaded
    kept_bytes: tuple[int, ...]
    memory_kept_bytes: tuple[int, ...]
    needed_bytes: int
    covered_bytes: int
    copy_bytes: int = 0


def regular_records(
    records: NDArray[Any], pack_bytes: Sequence[int]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns the ids of the records (struct fan_record) that have content in the divided packs,
    and their positions, both in ascending order of position. The divided packs are those whose
    entry in pack_bytes is not 0."""
    from fanstore.arrays import np

    divided = np.asarray(pack_bytes) > 0
    regular = (records["mode"] & 0o170000) == stat.S_IFREG
    sane = regular & (records["stored_size"] > 0) & (records["pack"] < len(pack_bytes))
    ids = np.flatnonzero(sane)
    ids = ids[divided[records["pack"][ids]]]
    starts = np.concatenate(([0], np.cumsum(np.asarray(pack_bytes, dtype=np.uint64))))
    positions = starts[records["pack"][ids]] + records["offset"][ids]
    order = np.argsort(positions, kind="stable")
    return ids[order], positions[order]


def even_shares(total_bytes: int, room_bytes: Sequence[int]) -> list[int]:
    """Divides bytes as evenly as the ranks' rooms allow; bytes that fit nowhere are left out."""
    shares = [0] * len(room_bytes)
    left = total_bytes
    by_room = sorted(range(len(room_bytes)), key=lambda rank: room_bytes[rank])
    for number, rank in enumerate(by_room):
        even = -(-left // (len(by_room) - number))
        shares[rank] = min(room_bytes[rank], even)
        left -= shares[rank]
    return shares


def divide(
    records: NDArray[Any],
    pack_bytes: Sequence[int],
    room_bytes: Sequence[int],
    rank: int,
    most_bytes: int | None = None,
    memory_bytes: Sequence[int] = (),
) -> Shares:
    """Divides the records (struct fan_record) of packs among ranks with room_bytes of room each.

    pack_bytes: the size of each pack, 0 for packs that are not to be divided. rank: this rank, for
    `Shares.own`. most_bytes: larger records are kept on no disk. memory_bytes: what each rank's
    block cache can keep of the records on no disk; () for nothing.
    """
    from fanstore.arrays import np

    ids, positions = regular_records(records, pack_bytes)
    sizes = records["stored_size"][ids]
    ends = np.append(positions[1:], positions[-1:] + sizes[-1:])
    # the gap before a record takes at most a page of the disk
    costs = np.minimum(ends - positions, sizes + PAGE_BYTES)
    largest_bytes = max(room_bytes)
    if most_bytes is not None:
        largest_bytes = min(largest_bytes, most_bytes)
        costs[sizes > most_bytes] = 0
    content = np.minimum(ends - positions, sizes)  # of hard links once
    costs[sizes > largest_bytes] = 0
    taken = np.cumsum(costs)
    cuts = _cuts(taken, even_shares(int(costs.sum()), room_bytes), room_bytes, np)
    is_divided = np.arange(len(ids)) < cuts[-1]
    on_disk = is_divided & (sizes <= largest_bytes)
    total = sum(pack_bytes)
    memory_bytes = memory_bytes or [0] * len(room_bytes)
    memory_bounds, kept_in_memory = _divide_memory(
        positions, sizes, is_divided, memory_bytes, total
    )
    own = ids[cuts[rank] : cuts[rank + 1]]
    bounds = tuple(int(positions[cut]) if cut < len(ids) else total for cut in cuts)
    return Shares(
        bounds,
        tuple(max(bounds[-1], bound) for bound in memory_bounds),
        largest_bytes,
        own[records["stored_size"][own] <= largest_bytes],
        _between(taken, cuts),
        kept_in_memory,
        int(content.sum()),
        int(content[on_disk].sum()),
    )


def _divide_memory(
    positions: NDArray[Any],
    sizes: NDArray[Any],
    on_disk: NDArray[Any],
    memory_bytes: Sequence[int],
    total_bytes: int,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Divides the records on no disk among the memories of all ranks, each with memory_bytes of
    room. positions, sizes, on_disk: of the divided records, by ascending position. Returns
    Shares.memory_bounds and memory_kept_bytes."""
    from fanstore.arrays import np

    pages = -(-sizes // PAGE_BYTES) * PAGE_BYTES
    rounded = int(pages.sum()) / max(1, int(sizes.sum()))
    rest = np.where(on_disk, 0, pages / min(rounded, _ROUNDED_MOST)).astype(np.int64)
    rests = np.cumsum(rest)
    cuts = _cuts(rests, even_shares(int(rest.sum()), memory_bytes), memory_bytes, np)
    bounds = (int(positions[cut]) if cut < len(positions) else total_bytes for cut in cuts)
    return tuple(bounds), _between(rests, cuts)


def _between(sums: Any, cuts: Sequence[int]) -> tuple[int, ...]:
    """Returns the bytes between each cut and the next. sums: the running total of bytes before each
    record."""
    upto = [int(sums[cut - 1]) if cut else 0 for cut in cuts]
    return tuple(after - before for before, after in pairwise(upto))


def _cuts(taken: Any, shares: Sequence[int], room_bytes: Sequence[int], np: Any) -> list[int]:
    """Returns the index of each rank's first record, and the end of the last rank's records. Each
    rank gets its share and whatever the ranks before it left, as far as its room allows."""
    cuts, due = [0], 0
    for share, room in zip(shares, room_bytes, strict=True):
        before = int(taken[cuts[-1] - 1]) if cuts[-1] else 0
        due += share
        limit = min(due, before + room)
        upto = int(np.searchsorted(taken, limit, side="right")) if limit > before else 0
        cuts.append(max(cuts[-1], upto))
    return cuts
