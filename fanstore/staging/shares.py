"""Who keeps what of a dataset that is on the local disks in part.

CoorDL's partitioned MinIO (Mohan et al., section 4.2): the records, in the order in which they lie
in the packs, are divided among the ranks so that all disks fill evenly; each is read from the
shared file system by the rank that keeps it, and stays. Every rank works the division out by
itself. Or each rank is told what it keeps (`chosen`). Pure but for NumPy.
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


@dataclass(frozen=True)
class Shares:
    """What each rank keeps of one dataset. Positions count the bytes of the packs that are divided,
    one after the other.

    bounds: rank r keeps the records from position bounds[r] to bounds[r + 1] on its disk; what is
    behind the last is on no disk, as are records of more than largest_bytes. keepers: where it is
    not None that counts instead: (records, bytes), in each row a bit for each rank that keeps the
    record. memory_bounds: as bounds, of what is on no disk, and of the ranks' memories. own: the
    ids of the records of one rank, in the order in which they come to its disk; kept_bytes: what
    each rank's take, and memory_kept_bytes in memory; covered_bytes: what is on any disk;
    needed_bytes: what all would take.
    """

    bounds: tuple[int, ...]
    memory_bounds: tuple[int, ...]
    largest_bytes: int
    own: NDArray[Any]
    kept_bytes: tuple[int, ...]
    memory_kept_bytes: tuple[int, ...]
    needed_bytes: int
    covered_bytes: int
    keepers: NDArray[Any] | None = None


def regular_records(
    records: NDArray[Any], pack_bytes: Sequence[int]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns the ids of the records (struct fan_record) with content in packs that are divided,
    those whose size in pack_bytes is not 0; and their positions, which rise."""
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
    """Divides bytes as evenly as the ranks' rooms allow; what fits nowhere is left out."""
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
    """Divides the records (struct fan_record) of packs among ranks with so much room each.

    pack_bytes: the size of each pack, 0 of those that are not to be divided. most_bytes: what is
    larger is kept on no disk. memory_bytes: what each rank's block cache can keep of what is on no
    disk; where none is given none does.
    """
    from fanstore.arrays import np

    ids, positions = regular_records(records, pack_bytes)
    sizes = records["stored_size"][ids]
    ends = np.append(positions[1:], positions[-1:] + sizes[-1:])
    costs = np.minimum(ends - positions, sizes + PAGE_BYTES)  # alignment takes no room, or a page
    largest_bytes = max(room_bytes)
    if most_bytes is not None:
        largest_bytes = min(largest_bytes, most_bytes)
        costs[sizes > most_bytes] = 0
    needed_bytes = int(costs.sum())
    costs[sizes > largest_bytes] = 0
    taken = np.cumsum(costs)
    cuts = _cuts(taken, even_shares(int(costs.sum()), room_bytes), room_bytes, np)
    total = sum(pack_bytes)
    memory_bytes = memory_bytes or [0] * len(room_bytes)
    in_memory = divide_memory(positions, sizes, np.arange(len(ids)) < cuts[-1], memory_bytes, total)
    own = ids[cuts[rank] : cuts[rank + 1]]
    bounds = tuple(int(positions[cut]) if cut < len(ids) else total for cut in cuts)
    return Shares(
        bounds,
        tuple(max(bounds[-1], bound) for bound in in_memory.bounds),
        largest_bytes,
        own[records["stored_size"][own] <= largest_bytes],
        _between(taken, cuts),
        in_memory.kept_bytes,
        needed_bytes,
        int(taken[cuts[-1] - 1]) if cuts[-1] else 0,
    )


@dataclass(frozen=True)
class MemoryShares:
    """What the ranks' memories keep: Shares.memory_bounds and memory_kept_bytes."""

    bounds: tuple[int, ...]
    kept_bytes: tuple[int, ...]


def divide_memory(
    positions: NDArray[Any],
    sizes: NDArray[Any],
    on_disk: NDArray[Any],
    memory_bytes: Sequence[int],
    total_bytes: int,
) -> MemoryShares:
    """Divides what is on no disk among the memories of all ranks, each with so much room.
    positions, sizes, on_disk: of the records that are divided, by rising position."""
    from fanstore.arrays import np

    rest = np.where(on_disk, 0, -(-sizes // PAGE_BYTES) * PAGE_BYTES)
    rests = np.cumsum(rest)
    cuts = _cuts(rests, even_shares(int(rest.sum()), memory_bytes), memory_bytes, np)
    bounds = (int(positions[cut]) if cut < len(positions) else total_bytes for cut in cuts)
    return MemoryShares(tuple(bounds), _between(rests, cuts))


def _between(sums: Any, cuts: Sequence[int]) -> tuple[int, ...]:
    """Returns what lies between each cut and the next, by the sums up to each record."""
    upto = [int(sums[cut - 1]) if cut else 0 for cut in cuts]
    return tuple(after - before for before, after in pairwise(upto))


def _cuts(taken: Any, shares: Sequence[int], room_bytes: Sequence[int], np: Any) -> list[int]:
    """Returns where the records of each rank begin, and the end of the last: each takes its share
    and what the ranks before it left, as far as its room goes."""
    cuts, due = [0], 0
    for share, room in zip(shares, room_bytes, strict=True):
        before = int(taken[cuts[-1] - 1]) if cuts[-1] else 0
        due += share
        limit = min(due, before + room)
        cuts.append(max(cuts[-1], int(np.searchsorted(taken, limit, side="right"))))
    return cuts
