"""Streams that open a large file for each sample, and read an announced range of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from fanstore._native import dtype_of, lib
from fanstore.foresight.announcement import Announcement
from fanstore.foresight.loaders import Loaders
from fanstore.foresight.order.follow import Expected
from fanstore.foresight.sample_files import Learnt
from fanstore.foresight.sink import Sink
from fanstore.pieces import Pieces

MIB, PIECE = 1 << 20, 16 << 10
SMALL, LARGE = 0, 1  # record ids
PID = 7


class Told(Sink):
    def __init__(self) -> None:
        self.order: list[int] = []
        self.passed: list[tuple[int, int]] = []

    def begin(self, expected: Expected, behind: int = 0) -> int:
        self.order = expected.records.tolist()
        return 1

    def advance(self, token: int, position: int, read: int) -> None:
        self.passed.append((position, read))


def loaders(told: Told) -> Loaders:
    rows = np.zeros(2, dtype_of("struct fan_record"))
    rows["logical_size"], rows["codec"] = [100, 20 * MIB], int(lib.FAN_CODEC_STORE)
    pieces = Pieces(2, [(0, rows)])
    dataset: Any = SimpleNamespace(pieces=pieces, header=SimpleNamespace(record_count=2))
    return Loaders(
        lambda _, count: [(0, np.arange(count, dtype=np.uint64))], told, Learnt([dataset])
    )


def announced(shards: list[int], ranges: list[tuple[int, int, int, int, int]]) -> Announcement:
    parts = {
        "paths": b"/m/small\0/m/large\0",
        "indices": np.array(shards, np.int64).tobytes(),
        "ranges": np.array(ranges, np.int64).tobytes(),
    }
    sampler = {
        "kind": "shards", "name": "stream", "samples": len(shards), "drop_last": False, "batch": 4,
    }  # fmt: skip
    return Announcement(PID, 1 << 17, 1 << 17, sampler, 0, 1, True, 1, parts)


def span(first: int, last: int) -> list[int]:
    """The numbers of pieces of the large file."""
    return list(range(2 + first, 3 + last))


def test_reads_follow_opens() -> None:
    told = Told()
    found = loaders(told)
    size = 100_000
    begins = {0: 5 * MIB, 2: 0, 3: 20 * MIB - size}
    ranges = [(LARGE, at, 1, begin, begin + size) for at, begin in begins.items()]
    found.announce(announced([LARGE, SMALL, LARGE, LARGE], ranges))
    parts = [
        span((5 * MIB) // PIECE, (5 * MIB + size - 1) // PIECE), [SMALL],
        span(0, (size - 1) // PIECE), span((20 * MIB - size) // PIECE, 1279),
    ]  # fmt: skip
    assert told.order == [number for part in parts for number in part]
    ends = np.cumsum([len(part) for part in parts]).tolist()
    for at, record in enumerate([LARGE, SMALL, LARGE, LARGE]):
        found.note([(frozenset({PID}), {0: np.array([record], np.uint64)})])
        position, read = told.passed[-1]
        # The last sample that was begun is still being read.
        assert (position, read) == (([0, *ends])[at], ends[at])
    assert found.figures().predicted == 4 and found.figures().strange == 0


def test_ranges_that_are_not_known_leave_whole_files() -> None:
    told = Told()
    found = loaders(told)
    found.announce(announced([SMALL, SMALL], [(SMALL, 0, 1, 0, 50)]))
    assert told.order == [SMALL, SMALL]
