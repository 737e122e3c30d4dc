"""The notes of a lane: 8 bytes for each open, wait or time (csrc/format/trace_format.h)."""

from __future__ import annotations

from typing import Any

from fanstore._native import lib
from fanstore.arrays import np
from fanstore.trace.tables import BLOCK, OPEN, SOURCES, STALL, Table

_KIND_SHIFT, _LAP_SHIFT, _MOUNT_SHIFT, _FILE_SHIFT = 61, 60, 56, 24
_TIME_MASK = (1 << _LAP_SHIFT) - 1
_MANTISSA_BITS, _EXPONENT_BITS = 16, 5


def note(kind: int, mount: int = 0, file: int = 0, payload: int = 0) -> int:
    """Returns a note with no lap."""
    return kind << _KIND_SHIFT | mount << _MOUNT_SHIFT | file << _FILE_SHIFT | payload


def time_note(since_base_ns: int) -> int:
    """Returns a note of the time."""
    return int(lib.FAN_NOTE_TIME) << _KIND_SHIFT | since_base_ns & _TIME_MASK


def stall_payload(source: int, duration_ns: int) -> int:
    """Returns the payload of a stall: the time is cut to its highest 16 bits."""
    exponent = max(0, duration_ns.bit_length() - _MANTISSA_BITS)
    mantissa = duration_ns >> exponent
    return (source << _EXPONENT_BITS | exponent) << _MANTISSA_BITS | mantissa


def newest(ring: Table, begin: int, head: int) -> Table:
    """Returns the notes of a copied ring from place `begin` to `head`, oldest first. A place that
    was taken and is not written yet ends them."""
    places = np.arange(begin, max(begin, head), dtype=np.uint64)
    notes = ring[(places % np.uint64(len(ring))).astype(np.intp)]
    written = (notes >> np.uint64(_LAP_SHIFT)) & np.uint64(1) == lap_of(places, len(ring))
    return notes[: len(notes) if written.all() else int(np.argmin(written))]


def lap_of(places: Table, ring_notes: int) -> Table:
    """Returns the lap bit of notes by their places: 1 in the first round of a ring."""
    return (places // np.uint64(ring_notes) + np.uint64(1)) & np.uint64(1)


def decode(notes: Table, processes: Table, base_realtime_ns: int) -> tuple[Table, Table, Table]:
    """Returns the opens, blocks and stalls among the notes of one lane, in their order. processes:
    the row of the program that made each. Unknown kinds are left out; what comes before the first
    time of a lane has that time."""
    kinds = notes >> np.uint64(_KIND_SHIFT)
    times, before = (each + base_realtime_ns for each in _times(notes, kinds == lib.FAN_NOTE_TIME))
    opens = _common(notes, processes, times, kinds == lib.FAN_NOTE_OPEN, OPEN)
    is_block = kinds == lib.FAN_NOTE_BLOCK
    blocks = _common(notes, processes, times, is_block, BLOCK)
    blocks["block"] = notes[is_block] & np.uint64((1 << _FILE_SHIFT) - 1)
    return opens, blocks, _stalls(notes, processes, before, kinds == lib.FAN_NOTE_STALL)


def _times(notes: Table, is_time: Table) -> tuple[Table, Table]:
    """Returns two times for each note, ns since base_ns: one between the times noted before and
    after it, evenly spread, and the one noted before."""
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
