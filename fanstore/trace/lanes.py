"""Reads the trace of a running job from its segment, while programs write to it."""

from __future__ import annotations

import mmap
import os
import time
from typing import Any

from fanstore._native import dtype_of, lib
from fanstore.arrays import np
from fanstore.errors import FanstoreError
from fanstore.trace.tables import (
    BLOCK,
    COUNTS,
    OPEN,
    PROCESS,
    STALL,
    Table,
    Trace,
    by_time,
    decode,
    newest,
    summed,
    time_note,
)

_LANE = dtype_of("struct fan_lane")
_TRACE = dtype_of("struct fan_trace")
_JOB = dtype_of("struct fan_job_header")
_TRIES = 100
_OWNED = (int(lib.FAN_LANE_LIVE), int(lib.FAN_LANE_SHARED))


class LaneFile:
    """The mapped lanes of a job segment. The content of the arrays `trace`, `lanes` and `rings`
    changes while programs run. at: the job directory, or its segment."""

    def __init__(self, at: str | os.PathLike[str]) -> None:
        """Raises FanstoreError if the file is no segment with lanes, OSError if it cannot be
        read."""
        path = os.path.join(at, "segment") if os.path.isdir(at) else os.fspath(at)
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size < _JOB.itemsize:
                raise FanstoreError(f"{path}: no job segment")
            image = mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ)
        job = np.frombuffer(image, _JOB, 1)[0]
        layout = (int(job["version"]), int(job["layout_id"]), bytes(job["magic"]))
        if layout != (lib.FAN_JOB_VERSION, lib.FAN_JOB_LAYOUT_ID, b"FANJOBS\n"):
            raise FanstoreError(f"{path}: no job segment of this version of FanStore")
        self.path = path
        self.rank = int(job["rank"])
        self.trace = _array(image, path, int(job["trace_offset"]), _TRACE, 1)[0]
        count, ring_notes = int(self.trace["lane_count"]), int(self.trace["ring_notes"])
        self.lanes = _array(image, path, int(self.trace["lanes_offset"]), _LANE, count)
        notes = _array(
            image, path, int(self.trace["rings_offset"]), np.dtype("<u8"), count * ring_notes
        )
        self.rings = notes.reshape(count, ring_notes)

    def lanes_with_ended(self) -> tuple[Table, Table]:
        """Returns a copy of all lanes, and the counts of owners that have ended. Each count is in
        exactly one of these two."""
        for _ in range(_TRIES):
            before = int(self.trace["moves"])
            lanes, ended = self.lanes.copy(), self.trace["ended"].copy()
            if before % 2 == 0 and before == int(self.trace["moves"]):
                return lanes, ended
            time.sleep(0.001)
        raise FanstoreError(f"{self.path}: its daemon stopped while it changed the lanes")

    def notes_of(self, lane: int, first: int) -> tuple[Table, int, int]:
        """Returns the written notes of a lane from position `first` on, how many notes before them
        were lost, and the position behind the last."""
        head = int(self.lanes["head"][lane])
        ring = self.rings[lane].copy()
        begin = max(first, int(self.lanes["head"][lane]) - len(ring))
        notes = newest(ring, begin, head)
        return notes, begin - first, begin + len(notes)


def _array(image: mmap.mmap, path: str, offset: int, dtype: np.dtype[Any], count: int) -> Table:
    if offset > len(image) or count * dtype.itemsize > len(image) - offset:
        raise FanstoreError(f"{path}: its lanes lie outside of it")
    return np.frombuffer(image, dtype, count, offset)


def live_counters(at: str | os.PathLike[str]) -> Table:
    """Returns the counts over all programs of a running job on this node: one `struct
    fan_counters`. at: the job directory, or its segment. Raises FanstoreError or OSError."""
    lanes, ended = LaneFile(at).lanes_with_ended()
    return summed([*lanes["counters"], ended])


def live_trace(at: str | os.PathLike[str]) -> Trace:
    """Returns the trace of a running job on this node: the counts of its programs, and the newest
    notes of their threads. at: the job directory, or its segment. Raises FanstoreError or
    OSError."""
    file = LaneFile(at)
    lanes, ended = file.lanes_with_ended()
    base_ns = int(file.trace["base_realtime_ns"])
    owned = np.flatnonzero(np.isin(lanes["state"], _OWNED))
    numbers = np.unique(np.append(lanes["process"][owned], 0))
    processes = np.zeros(len(numbers), PROCESS)
    counts = np.zeros(len(numbers), COUNTS)
    for row, number in enumerate(numbers):
        mine = owned[lanes["process"][owned] == number]
        processes[row] = _process(lanes[mine], file.rank, base_ns)
        counts[row] = summed([*lanes["counters"][mine], *([ended] if number == 0 else [])])
    parts = [
        _decoded(file, int(lane), int(lanes["first"][lane]), row_of(numbers, lanes, int(lane)))
        for lane in (owned if file.rings.shape[1] else [])
    ]
    for row, lost, _ in parts:
        processes["dropped"][row] += lost
    tables = [tables for _, _, tables in parts]
    opens, blocks, stalls = (
        by_time([each[at] for each in tables], dtype)
        for at, dtype in enumerate((OPEN, BLOCK, STALL))
    )
    about = [{"rank": file.rank, "host": os.uname().nodename}]
    return Trace(about, processes, counts, opens, blocks, stalls)


def row_of(numbers: Table, lanes: Table, lane: int) -> int:
    """Returns the row of the program that owns a lane."""
    return int(np.searchsorted(numbers, lanes["process"][lane]))


def _decoded(file: LaneFile, lane: int, first: int, row: int) -> tuple[int, int, Any]:
    notes, lost, _ = file.notes_of(lane, first)
    now = time_note(time.monotonic_ns() - int(file.trace["base_ns"]))
    notes = np.append(notes, np.uint64(now))
    rows = np.full(len(notes), row, np.uint32)
    return row, lost, decode(notes, rows, int(file.trace["base_realtime_ns"]))


def _process(lanes: Table, rank: int, base_realtime_ns: int) -> Table:
    """Returns the row of the program that owns `lanes`. For program number 0, only rank and host
    are set."""
    row = np.zeros((), PROCESS)
    row["rank"], row["host"] = rank, os.uname().nodename.encode()
    if len(lanes) and lanes["process"][0]:
        for name in ("pid", "pid_space"):
            row[name] = lanes[name][0]
        row["number"] = lanes["process"][0]
        row["comm"] = lanes["comm"][0].tobytes().split(b"\0")[0]
        row["start_ns"] = int(lanes["start_ns"].min()) + base_realtime_ns
    return row
