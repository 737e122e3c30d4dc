"""Who keeps what of a dataset that is on the local disks in part."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fanstore._native import dtype_of
from fanstore.staging.shares import Shares, divide, even_shares

HEADER_BYTES = 4096
SIZE_BYTES = 10_000


def packed(sizes: Sequence[Sequence[int]]) -> tuple[Any, list[int]]:
    """Records of files with these sizes, by pack, in an order of their own; the packs' sizes."""
    rows, pack_bytes = [], []
    for pack, of_pack in enumerate(sizes):
        offset = HEADER_BYTES
        for size in of_pack:
            rows.append((pack, offset, size))
            offset += size
        pack_bytes.append(offset + 1000)
    records = np.zeros(len(rows) + 1, dtype_of("struct fan_record"))
    records["mode"][0] = stat.S_IFDIR | 0o755
    order = np.random.default_rng(len(rows)).permutation(len(rows)) + 1
    for at, (pack, offset, size) in zip(order, rows, strict=True):
        record = (stat.S_IFREG | 0o644, pack, offset, size)
        for name, value in zip(("mode", "pack", "offset", "stored_size"), record, strict=True):
            records[name][at] = value
    return records, pack_bytes


def all_shares(records: Any, pack_bytes: Sequence[int], room_bytes: Sequence[int]) -> list[Shares]:
    """What each rank works out; all the same but for its own records."""
    found = [divide(records, pack_bytes, room_bytes, rank) for rank in range(len(room_bytes))]
    assert len({(each.bounds, each.largest_bytes, each.kept_bytes) for each in found}) == 1
    return found


def kept_by_bounds(records: Any, pack_bytes: Sequence[int], shares: Shares) -> list[list[int]]:
    """The records of each rank as the node core finds them, by bounds and size."""
    starts = np.concatenate(([0], np.cumsum(pack_bytes)))
    kept: list[list[int]] = [[] for _ in shares.bounds[1:]]
    for record in np.flatnonzero(records["stored_size"]):
        pack = records["pack"][record]
        at = starts[pack] + records["offset"][record]
        rank = int(np.searchsorted(shares.bounds, at, side="right")) - 1
        small = records["stored_size"][record] <= shares.largest_bytes
        if 0 <= rank < len(kept) and small and pack_bytes[pack]:
            kept[rank].append(int(record))
    return kept


@pytest.mark.parametrize(
    ("total", "rooms", "shares"),
    [
        (100, [100, 100], [50, 50]),
        (100, [10, 100, 100], [10, 45, 45]),
        (100, [10, 20], [10, 20]),
        (7, [9, 9, 9], [3, 2, 2]),
        (5, [0, 0], [0, 0]),
        (0, [4], [0]),
    ],
)
def test_even_shares(total: int, rooms: list[int], shares: list[int]) -> None:
    found = even_shares(total, rooms)
    assert sorted(found) == sorted(shares)
    assert all(share <= room for share, room in zip(found, rooms, strict=True))


@pytest.mark.parametrize("room", [10**9, 60 * SIZE_BYTES, 7 * SIZE_BYTES + 1, SIZE_BYTES, 100, 0])
@pytest.mark.parametrize("world_size", [1, 3, 4])
def test_ranks_agree_and_keep_what_fits(world_size: int, room: int) -> None:
    sizes = [[SIZE_BYTES + n % 7 for n in range(40)], [], [SIZE_BYTES] * 33, [1, 2, 3]]
    records, pack_bytes = packed(sizes)
    found = all_shares(records, pack_bytes, [room] * world_size)
    kept = kept_by_bounds(records, pack_bytes, found[0])
    for rank, shares in enumerate(found):
        assert sorted(shares.own.tolist()) == sorted(kept[rank])
        assert int(records["stored_size"][shares.own].sum()) <= shares.kept_bytes[rank] <= room
    if room == 10**9:
        assert sum(map(len, kept)) == 40 + 33 + 3
        assert max(shares.kept_bytes) - min(shares.kept_bytes) <= 3 * SIZE_BYTES
    if room == 7 * SIZE_BYTES + 1:
        assert all(len(each) in (6, 7) for each in kept)


def test_own_records_come_in_the_order_of_the_packs() -> None:
    records, pack_bytes = packed([[SIZE_BYTES] * 20, [SIZE_BYTES] * 20])
    own = divide(records, pack_bytes, [10**9], 0).own
    places = [(records["pack"][r], records["offset"][r]) for r in own]
    assert places == sorted(places)


def test_packs_that_a_rank_has_whole_are_not_divided() -> None:
    records, pack_bytes = packed([[SIZE_BYTES] * 10, [SIZE_BYTES] * 10, [SIZE_BYTES] * 10])
    pack_bytes[1] = 0
    first, second = all_shares(records, pack_bytes, [10**9] * 2)
    assert set(records["pack"][first.own]) | set(records["pack"][second.own]) == {0, 2}
    assert len(first.own) + len(second.own) == 20 and abs(len(first.own) - len(second.own)) <= 2
    assert [sorted(each.own.tolist()) for each in (first, second)] == [
        sorted(each) for each in kept_by_bounds(records, pack_bytes, first)
    ]


def test_a_file_larger_than_any_room_is_left_out_alone() -> None:
    """What lies behind it finds its place all the same."""
    records, pack_bytes = packed([[SIZE_BYTES] * 5 + [10**9] + [SIZE_BYTES] * 20])
    first, second = all_shares(records, pack_bytes, [12 * (SIZE_BYTES + 4096)] * 2)
    assert len(first.own) + len(second.own) in (24, 25)
    assert 10**9 not in records["stored_size"][first.own]
    assert kept_by_bounds(records, pack_bytes, first) == [
        sorted(first.own.tolist()), sorted(second.own.tolist())
    ]  # fmt: skip


def test_a_file_larger_than_an_even_share_is_kept_where_it_has_room() -> None:
    records, pack_bytes = packed([[SIZE_BYTES] * 5 + [20 * SIZE_BYTES] + [SIZE_BYTES] * 5])
    found = all_shares(records, pack_bytes, [10**9] * 4)
    assert sum(len(shares.own) for shares in found) == 11
    few = [divide(records, pack_bytes, [10**9] * 4, rank, 15 * SIZE_BYTES) for rank in range(4)]
    assert sum(len(shares.own) for shares in few) == 10  # where what is longer is not kept


def test_hard_links_take_their_room_once() -> None:
    records, pack_bytes = packed([[SIZE_BYTES] * 4])
    twice = np.concatenate((records, records[1:]))
    shares = divide(twice, pack_bytes, [5 * SIZE_BYTES], 0)
    assert len(shares.own) == 8
    assert shares.kept_bytes[0] <= 5 * SIZE_BYTES


def test_what_is_on_no_disk_is_divided_among_the_memories() -> None:
    records, pack_bytes = packed([[SIZE_BYTES] * 6, [SIZE_BYTES] * 4])
    rooms, memory = [2 * SIZE_BYTES + 8192] * 2, [3 * SIZE_BYTES, SIZE_BYTES]
    found = [divide(records, pack_bytes, rooms, rank, None, memory) for rank in range(2)]
    assert len({(each.bounds, each.memory_bounds) for each in found}) == 1
    assert found[0].memory_bounds[0] == found[0].bounds[-1]
    assert found[0].memory_kept_bytes == (3 * SIZE_BYTES, SIZE_BYTES)
    without = divide(records, pack_bytes, rooms, 0)
    assert without.bounds == found[0].bounds and without.memory_kept_bytes == (0, 0)


def test_nothing_is_left_for_memories_where_disks_keep_all() -> None:
    records, pack_bytes = packed([[SIZE_BYTES] * 6])
    shares = divide(records, pack_bytes, [10**9] * 2, 0, None, [10**9] * 2)
    assert shares.memory_kept_bytes == (0, 0)
