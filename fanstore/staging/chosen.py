"""Shares that are given record by record, for example by a plan. Several ranks may keep the same
record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fanstore.dataset import Dataset
from fanstore.staging.room import DiskRoom, check_rooms
from fanstore.staging.shares import PAGE_BYTES, Shares, divide_memory, regular_records
from fanstore.startup import World

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INSTEAD = (
    "another --local-dir, or a plan with smaller storage classes (`fanstore study plan --set`)"
)


@dataclass(frozen=True)
class Chosen:
    """The records of a dataset that this rank is to keep: ids in the order in which it fetches
    them. The records `disk` must fit on its disk; of the records `memory`, as many as fit go to the
    disk too."""

    disk: NDArray[Any]
    memory: NDArray[Any]


Choose = Callable[[Dataset], Chosen | None]


def share_chosen(
    world: World,
    dataset: Dataset,
    pack_bytes: Sequence[int],
    rooms: Sequence[DiskRoom],
    chosen: Chosen,
    most_bytes: int | None,
) -> Shares:
    """Returns the shares of all ranks in a dataset. pack_bytes, most_bytes: as in `divide`; rooms:
    the room of every rank, of which share_bytes may be filled. Records that no disk keeps are
    divided among the ranks' memories, as in `divide`.

    All ranks call it, each with its own choice. Raises FanstoreError, with figures, if the records
    that a rank is to keep on its disk do not fit there."""
    from fanstore.arrays import np

    records = dataset.records
    room_bytes = records["stored_size"].astype(np.int64) + PAGE_BYTES
    ids, positions = regular_records(records, pack_bytes)
    kept_of = _picker(ids, len(records))
    disk, memory = kept_of(chosen.disk), kept_of(chosen.memory)
    disk_bytes = int(room_bytes[disk].sum())
    _check_rooms(world, rooms, dataset.name, disk_bytes)
    left_bytes = rooms[world.rank].share_bytes - disk_bytes
    memory = memory[np.cumsum(room_bytes[memory]) <= left_bytes]
    own = np.concatenate([disk, memory])
    if most_bytes is not None:
        own = own[records["stored_size"][own] <= most_bytes]
    keeps = np.zeros(len(records), dtype=bool)
    keeps[own] = True
    bits = np.packbits(keeps, bitorder="little")
    told = world.gather_all((int(room_bytes[own].sum()), bits))
    keepers = _rows([bits for _, bits in told], len(records), np)
    on_disk: NDArray[Any] = np.asarray(keepers.any(axis=1))
    in_memory = divide_memory(
        positions,
        records["stored_size"][ids],
        on_disk[ids],
        [room.cache_bytes for room in rooms],
        sum(pack_bytes),
    )
    return Shares(
        bounds=(),
        memory_bounds=in_memory.bounds,
        largest_bytes=0,
        own=own,
        kept_bytes=tuple(kept_bytes for kept_bytes, _ in told),
        memory_kept_bytes=in_memory.kept_bytes,
        needed_bytes=int(room_bytes[ids].sum()),
        covered_bytes=int(room_bytes[on_disk].sum()),
        keepers=keepers,
    )


def _picker(ids: NDArray[Any], count: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Returns a function that takes record ids and returns the ones that are also in `ids`. count:
    the number of records in the dataset."""
    from fanstore.arrays import np

    among = np.zeros(count, dtype=bool)
    among[ids] = True
    return lambda records: records[among[records]]


def _check_rooms(world: World, rooms: Sequence[DiskRoom], name: str, needed_bytes: int) -> None:
    """Raises FanstoreError if the records that a plan puts on a rank's disk do not fit there."""
    needed = world.gather_all(needed_bytes)
    # Only share_bytes of the free space may be filled: outputs need the rest.
    fillable = [replace(room, free_bytes=min(room.free_bytes, room.share_bytes)) for room in rooms]
    check_rooms(world, fillable, [[(name, amount)] for amount in needed], _INSTEAD)


def _rows(bits_of_ranks: Sequence[NDArray[Any]], count: int, np: Any) -> NDArray[Any]:
    """Returns one row of bits for each record, with one bit for each rank, lowest first: uint8 of
    shape (count, bytes)."""
    rows = np.zeros((count, -(-len(bits_of_ranks) // 8)), dtype=np.uint8)
    for rank, bits in enumerate(bits_of_ranks):
        kept = np.unpackbits(bits, count=count, bitorder="little")
        rows[:, rank // 8] |= kept << np.uint8(rank % 8)
    found: NDArray[Any] = rows
    return found
