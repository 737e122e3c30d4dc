"""Shares that were chosen record by record, as a plan does: several ranks may keep the same one."""

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

_INSTEAD = "another --local-dir, or a plan with smaller storage classes (`fanstore plan --set`)"


@dataclass(frozen=True)
class Chosen:
    """What this rank is to keep of a dataset, as ids of records in the order in which they are to
    come. disk: must have room on its disk; memory: comes there, too, as far as there is room."""

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
    """Returns what all ranks keep of a dataset. pack_bytes, most_bytes: as `divide` has them;
    rooms: of every rank; share_bytes of them may be filled, and what is on no disk is divided
    among the memories as `divide` does it.

    All ranks call it, each with its own choice. FanstoreError, with figures, where one has no room
    for what it is to keep on its disk.
    """
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
    """Returns a function that picks those of some records that are among `ids`."""
    from fanstore.arrays import np

    among = np.zeros(count, dtype=bool)
    among[ids] = True
    return lambda records: records[among[records]]


def _check_rooms(world: World, rooms: Sequence[DiskRoom], name: str, needed_bytes: int) -> None:
    """Raises FanstoreError where a rank's disk has not the room that a plan takes of it."""
    needed = world.gather_all(needed_bytes)
    # Outputs need room, too: only so much of what is free may be filled.
    fillable = [replace(room, free_bytes=min(room.free_bytes, room.share_bytes)) for room in rooms]
    check_rooms(world, fillable, [[(name, amount)] for amount in needed], _INSTEAD)


def _rows(bits_of_ranks: Sequence[NDArray[Any]], count: int, np: Any) -> NDArray[Any]:
    """Returns a row of bits for each record, one for each rank in whole bytes, the lowest first."""
    rows = np.zeros((count, -(-len(bits_of_ranks) // 8)), dtype=np.uint8)
    for rank, bits in enumerate(bits_of_ranks):
        kept = np.unpackbits(bits, count=count, bitorder="little")
        rows[:, rank // 8] |= kept << np.uint8(rank % 8)
    found: NDArray[Any] = rows
    return found
