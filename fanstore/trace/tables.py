"""A trace in memory, as one NumPy table for each kind of event, and the decoding of a lane's notes.
A note has 8 bytes and records an open, a wait or the time (csrc/format/trace_format.h)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fanstore._native import dtype_of, lib
from fanstore.arrays import np
from fanstore.trace.sections import SOURCES

Table = Any  # a structured NumPy array

PROCESS = np.dtype(
    [
        ("rank", "<u4"), ("number", "<u4"), ("pid", "<u4"), ("pid_space", "<u4"), ("host", "S64"),
        ("comm", "S16"), ("start_ns", "<i8"), ("end_ns", "<i8"), ("dropped", "<u8"),
    ]
)  # fmt: skip
OPEN = np.dtype([("time_ns", "<i8"), ("process", "<u4"), ("dataset", "<u2"), ("file", "<u4")])
BLOCK = np.dtype([*OPEN.descr, ("block", "<u4")])
STALL = np.dtype([*OPEN.descr, ("source", "<u1"), ("duration_ns", "<i8")])
COUNTS = dtype_of("struct fan_counters")
SAMPLE = np.dtype([("rank", "<u4"), *dtype_of("struct fan_traced_sample").descr])


@dataclass(frozen=True)
class Trace:
    """The events of a job's programs. Times are in ns since 1970.

    ranks: the description of each rank (job_id, rank, host, datasets), by number.
    processes: a row for each program: rank, number (on that rank, from 1), pid and pid_space (the
        inode number of its PID namespace), host, comm (its name), start_ns, end_ns (0: it still
        ran), dropped (its notes that were lost because nobody read them in time). number 0 of a
        rank stands for threads that found no lane and, in a live trace, for ended programs, too.
    counts: exact counts for the same rows: `struct fan_counters` with the fields opens, reads,
        read_bytes and so on, and `stalls`, which holds count, ns, bytes and bins for each of
        SOURCES. bins[n]: how many waits took 2**n ns or more, and less than 2**(n+1).
    opens: time_ns, process (a row of `processes`), dataset (its place in the job), file (record).
        A time is exact to the gap between two of a thread's time notes: 64 opens, or 0.1 s.
    blocks: reads that went on to a further MiB of a large file; block: the number of the MiB.
    stalls: waits, at their ends; source (a number of SOURCES), duration_ns, file (2**32 - 1: none).
    problem: why the rest of a file could not be read, or "".
    samples: of a kept trace, the counts of each rank, and the state of its daemon, at some times:
        rank, and the fields of `struct fan_traced_sample`.

    Each table is sorted by time; `opens`, `blocks` and `stalls` lack the `dropped` notes.
    """

    ranks: list[dict[str, Any]]
    processes: Table
    counts: Table
    opens: Table
    blocks: Table
    stalls: Table
    problem: str = ""
    samples: Table = field(default_factory=lambda: np.empty(0, SAMPLE))

    def total(self, name: str) -> int:
        """Returns the sum of a counter, such as "opens", over all programs."""
        return int(self.counts[name].sum())

    def stall_ns(self) -> Table:
        """Returns how long each program waited for each source, in ns: an array of shape (programs,
        len(SOURCES))."""
        return self.counts["stalls"]["ns"]


def by_time(parts: list[Table], dtype: np.dtype[Any]) -> Table:
    """Joins tables and sorts the result by time. Entries with the same time keep their order."""
    table = np.concatenate(parts) if parts else np.empty(0, dtype)
    return table[np.argsort(table["time_ns"], kind="stable")]


def summed(rows: Any) -> Table:
    """Returns the sum of several `struct fan_counters`, field by field."""
    total = np.zeros((), COUNTS)
    words = total.reshape(1).view("<u8")
    for row in rows:
        words += np.ascontiguousarray(row).reshape(1).view("<u8")
    return total


_KIND_SHIFT, _LAP_SHIFT, _MOUNT_SHIFT, _FILE_SHIFT = 61, 60, 56, 24
_TIME_MASK = (1 << _LAP_SHIFT) - 1
_MANTISSA_BITS, _EXPONENT_BITS = 16, 5
_BLOCK_PIECES = np.uint64(lib.FAN_TRACE_BLOCK_BYTES // lib.FAN_PIECE_BYTES)


def time_note(since_base_ns: int) -> int:
    """Returns a note of the time."""
    return int(lib.FAN_NOTE_TIME) << _KIND_SHIFT | since_base_ns & _TIME_MASK


def newest(ring: Table, begin: int, head: int) -> Table:
    """Returns the notes of a copied ring from position `begin` to `head`, oldest first. Stops
    before a position that a program has claimed but not written."""
    places = np.arange(begin, max(begin, head), dtype=np.uint64)
    notes = ring[(places % np.uint64(len(ring))).astype(np.intp)]
    written = (notes >> np.uint64(_LAP_SHIFT)) & np.uint64(1) == lap_of(places, len(ring))
    return notes[: len(notes) if written.all() else int(np.argmin(written))]


def lap_of(places: Table, ring_notes: int) -> Table:
    """Returns the lap bit of the notes at these positions: 1 in the first round of a ring, then 0
    and 1 in turn."""
    return (places // np.uint64(ring_notes) + np.uint64(1)) & np.uint64(1)


def decode(notes: Table, processes: Table, base_realtime_ns: int) -> tuple[Table, Table, Table]:
    """Returns the opens, blocks and stalls among the notes of one lane, in order. processes: for
    each note, the row of the program that made it. Skips unknown kinds. Notes before the lane's
    first time note get that time."""
    kinds = notes >> np.uint64(_KIND_SHIFT)
    times, before = (each + base_realtime_ns for each in _times(notes, kinds == lib.FAN_NOTE_TIME))
    opens = _common(notes, processes, times, kinds == lib.FAN_NOTE_OPEN, OPEN)
    is_piece = kinds == lib.FAN_NOTE_PIECE
    is_block = is_piece | (kinds == lib.FAN_NOTE_BLOCK)
    blocks = _common(notes, processes, times, is_block, BLOCK)
    number = notes[is_block] & np.uint64((1 << _FILE_SHIFT) - 1)
    blocks["block"] = np.where(is_piece[is_block], number // _BLOCK_PIECES, number)
    return opens, blocks, _stalls(notes, processes, before, kinds == lib.FAN_NOTE_STALL)


def _times(notes: Table, is_time: Table) -> tuple[Table, Table]:
    """Returns two times for each note, in ns since base_ns: one interpolated between the time notes
    around it, and the last time note before it."""
    at = np.flatnonzero(is_time)
    if len(at) == 0:
        return np.zeros(len(notes), np.int64), np.zeros(len(notes), np.int64)
    known = np.maximum.accumulate((notes[at] & np.uint64(_TIME_MASK)).astype(np.int64))
    places = np.arange(len(notes))
    spread = np.interp(places, at, (known - known[0]).astype(np.float64))
    before = known[np.maximum(np.searchsorted(at, places, side="right") - 1, 0)]
    return known[0] + spread.astype(np.int64), before


def _common(
    notes: Table, processes: Table, times: Table, which: Table, dtype: np.dtype[Any]
) -> Table:
    chosen = notes[which]
    table = np.zeros(len(chosen), dtype)
    table["time_ns"] = times[which]
    table["process"] = processes[which]
    table["dataset"] = chosen >> np.uint64(_MOUNT_SHIFT) & np.uint64(15)
    table["file"] = chosen >> np.uint64(_FILE_SHIFT) & np.uint64(0xFFFFFFFF)
    return table


def _stalls(notes: Table, processes: Table, times: Table, which: Table) -> Table:
    source = notes >> np.uint64(_EXPONENT_BITS + _MANTISSA_BITS) & np.uint64(7)
    which = which & (source < len(SOURCES))
    table = _common(notes, processes, times, which, STALL)
    table["source"] = source[which]
    exponent = notes[which] >> np.uint64(_MANTISSA_BITS) & np.uint64((1 << _EXPONENT_BITS) - 1)
    mantissa = notes[which] & np.uint64((1 << _MANTISSA_BITS) - 1)
    table["duration_ns"] = mantissa << exponent
    return table
