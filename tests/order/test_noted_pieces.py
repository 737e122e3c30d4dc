"""Notes of pieces of large files, of the samples they are read for, and of who has caused them."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from trace_files import note

from fanstore._native import dtype_of, lib
from fanstore.node import opens
from fanstore.node.opens import Opens, samples_of
from fanstore.pieces import Pieces

RECORDS, DATASET = 3, 77
LIVE = int(lib.FAN_LANE_LIVE)


def sample(number: int, joins: int = 0) -> int:
    return note(int(lib.FAN_NOTE_SAMPLE), joins, number, DATASET)


def piece(number: int, record: int = 1) -> int:
    return note(int(lib.FAN_NOTE_PIECE), 0, record, number)


def reader(lane: int) -> int:
    return note(int(lib.FAN_NOTE_READER), 0, lane)


class Lanes:
    """The lanes of three threads, the last of which is the map server's."""

    def __init__(self) -> None:
        self.lanes = np.zeros(4, dtype_of("struct fan_lane"))
        self.lanes["state"][1:] = LIVE
        self.lanes["pid"][1:] = os.getpid(), os.getppid(), 1
        self.lanes["pid_space"] = os.stat("/proc/self/ns/pid").st_ino
        self.rings = np.zeros((4, 64), np.uint64)
        self.notes: dict[int, list[int]] = {lane: [] for lane in range(4)}

    def write(self, lane: int, *notes: int) -> None:
        self.notes[lane] += notes
        self.lanes["head"][lane] += len(notes)

    def notes_of(self, lane: int, first: int) -> tuple[Any, int, int]:
        notes = np.array(self.notes[lane][first:], np.uint64)
        return notes, 0, first + len(notes)


@pytest.fixture
def lanes(monkeypatch: pytest.MonkeyPatch) -> Lanes:
    found = Lanes()
    monkeypatch.setattr(opens, "LaneFile", lambda _: found)
    return found


def follow() -> Opens:
    rows = np.zeros(RECORDS, dtype_of("struct fan_record"))
    rows["logical_size"][1] = 20 << 20
    rows["codec"] = int(lib.FAN_CODEC_STORE)
    dataset: Any = SimpleNamespace(pieces=Pieces(RECORDS, [(0, rows)]))
    return Opens("segment", [dataset])


def learnt(found: Opens) -> list[tuple[int, int]]:
    return [(int(each["sample"]), int(each["file"])) for each in found.tagged.reads()]


def test_pieces_count_as_opens_of_the_sample(lanes: Lanes) -> None:
    found = follow()
    lanes.write(1, sample(5), piece(0), piece(9), sample(6), piece(2, record=2), sample(7))
    [(family, opened)] = found.take()
    assert os.getpid() in family
    assert opened[samples_of(DATASET)].tolist() == [5, 6, 7]
    assert opened[0].tolist() == [RECORDS, RECORDS + 9]  # record 2 has no pieces
    assert learnt(found) == [(5, RECORDS), (5, RECORDS + 9)]
    assert found.piece_count == 2


def test_what_the_map_server_reads_counts_for_its_reader(lanes: Lanes) -> None:
    found = follow()
    lanes.write(1, sample(5))
    lanes.write(3, reader(1), sample(5), piece(4), reader(2), sample(8), piece(6), piece(7))
    entries = found.take()
    of_first = [opened for family, opened in entries if os.getpid() in family]
    assert [each[0].tolist() for each in of_first if 0 in each] == [[RECORDS + 4]]
    assert [samples_of(DATASET) in each for each in of_first] == [True, False]
    lanes.write(3, piece(8), reader(1), sample(6), reader(2), sample(9))  # 8: still of the second
    entries = found.take()
    assert sorted(learnt(found)) == [(5, RECORDS + 4), *((8, RECORDS + n) for n in (6, 7, 8))]


def test_notes_of_a_reader_that_is_no_lane(lanes: Lanes) -> None:
    found = follow()
    lanes.write(3, reader(2**32 - 1), sample(5), piece(4), reader(4), piece(5))
    assert found.take() == []
    assert learnt(found) == []


def test_a_program_without_datasets_counts_no_pieces(lanes: Lanes) -> None:
    lanes.write(1, sample(5), piece(4), sample(6))
    found = Opens("segment")
    [(_, opened)] = found.take()
    assert 0 not in opened
