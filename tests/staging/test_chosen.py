"""Who keeps what where that is chosen record by record."""

from __future__ import annotations

import stat
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fanstore._native import dtype_of
from fanstore.errors import FanstoreError
from fanstore.staging.chosen import Chosen, share_chosen
from fanstore.staging.room import DiskRoom
from fanstore.staging.shares import PAGE_BYTES, Shares
from fanstore.startup import World

COUNT = 20
SIZE_BYTES = 1000
ROOM_BYTES = SIZE_BYTES + PAGE_BYTES  # what each takes


class Together(World):
    """A rank among others that are threads of this process."""

    def __init__(self, rank: int, meeting: threading.Barrier, table: dict[int, Any]) -> None:
        self.rank, self.world_size = rank, meeting.parties
        self._meeting, self._table = meeting, table

    def gather_all(self, value: Any) -> list[Any]:
        self._table[self.rank] = value
        self._meeting.wait(30)
        found = [self._table[rank] for rank in range(self.world_size)]
        self._meeting.wait(30)
        return found


@dataclass
class Packed:
    """As much of a dataset as is looked at: files 1 to COUNT, the last two in another pack."""

    name: str = "data"

    @property
    def records(self) -> Any:
        records = np.zeros(COUNT + 1, dtype_of("struct fan_record"))
        records["mode"] = stat.S_IFREG | 0o644
        records["mode"][0] = stat.S_IFDIR | 0o755
        records["stored_size"][1:] = SIZE_BYTES
        records["pack"][COUNT - 1 :] = 1
        return records


def shares_of(
    choices: list[Chosen], files_of_room: list[int], most_bytes: int | None = None
) -> list[Shares | FanstoreError]:
    """What each rank works out, or raises; there is room for so many files. Pack 1 is not
    divided."""
    meeting, table = threading.Barrier(len(choices)), dict[int, Any]()
    rooms = [
        DiskRoom(rank, "n", "/d", 1 << 40, None, allowed_bytes=files * ROOM_BYTES)
        for rank, files in enumerate(files_of_room)
    ]
    found: dict[int, Any] = {}

    def work(rank: int) -> None:
        world = Together(rank, meeting, table)
        packed: Any = Packed()
        try:
            found[rank] = share_chosen(world, packed, [1, 0], rooms, choices[rank], most_bytes)
        except FanstoreError as error:
            found[rank] = error
            meeting.abort()  # nobody else comes here again
        except threading.BrokenBarrierError:
            pass

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(choices))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [found[rank] for rank in sorted(found)]


def chosen(disk: list[int], memory: list[int]) -> Chosen:
    return Chosen(np.array(disk, np.int64), np.array(memory, np.int64))


def kept(shares: Shares) -> list[set[int]]:
    """The records of each of 9 ranks, as the node core finds them."""
    rows: Any = shares.keepers
    return [set(np.flatnonzero(rows[:, r // 8] >> r % 8 & 1).tolist()) for r in range(9)]


def test_all_ranks_know_what_each_keeps() -> None:
    """Nine ranks take two bytes a record; what comes to memory comes as far as there is room; what
    a rank has whole, record 19, is not divided."""
    choices = [chosen([9, 3, 19], [5, 4, 6])] + [chosen([9 + r, 3], []) for r in range(1, 9)]
    found = shares_of(choices, [4] * 9)
    wanted = [{9, 3, 5, 4}] + [{9 + r, 3} for r in range(1, 9)]
    for rank, each in enumerate(found):
        assert isinstance(each, Shares)
        assert kept(each) == wanted
        assert each.kept_bytes == tuple(len(ids) * ROOM_BYTES for ids in wanted)
        assert each.covered_bytes == 12 * ROOM_BYTES
        assert each.needed_bytes == (COUNT - 2) * ROOM_BYTES
        if rank == 0:
            assert each.own.tolist() == [9, 3, 5, 4]


def test_what_has_no_room_on_a_disk_is_refused_once() -> None:
    found = shares_of([chosen([1, 2], []), chosen([1, 2, 3], [])], [2, 2])
    assert isinstance(found[0], FanstoreError)
    assert "rank 1 on n: 0.0 MiB (15,288 bytes) are needed to stage data" in str(found[0])
    assert "a plan with smaller storage classes" in str(found[0])


@pytest.mark.parametrize("most_bytes", [None, SIZE_BYTES - 1])
def test_what_is_too_long_to_come_when_read(most_bytes: int | None) -> None:
    (found,) = shares_of([chosen([1, 2], [])], [5], most_bytes)
    assert isinstance(found, Shares)
    assert found.own.tolist() == ([] if most_bytes else [1, 2])
