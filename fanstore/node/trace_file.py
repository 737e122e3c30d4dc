"""The kept trace of one rank (`--trace FILE`): takes notes from the lanes before they are
overwritten, and writes them to a file beside FILE until the job ends."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from fanstore._native import dtype_of, lib
from fanstore.arrays import np
from fanstore.messages.figures import TracedJob, TraceEnd
from fanstore.messages.message import replace, to_json
from fanstore.trace.lanes import LaneFile
from fanstore.trace.sections import TraceSection, encode, file_header
from fanstore.trace.tables import summed, time_note

_PAUSE_S = 0.01
_IDLE_PAUSE_S = 0.05
_HURRY_S = 0.002
_SAMPLE_S, _SAMPLE_PART = 0.25, 0.001  # at most so often, and for at most this part of the time
_FLUSH_S = 5.0
_FLUSH_BYTES = 1 << 20
_PROCESS = dtype_of("struct fan_traced_process")
_RUN = dtype_of("struct fan_traced_run")
_SAMPLE = dtype_of("struct fan_traced_sample")


class KeptTrace:
    """Writes the trace of one rank to `path`. about: the description of the job that the file
    begins with; look: returns the daemon's figures, by the fields of `struct fan_traced_sample`;
    foreseen: is called at the end and returns the figures of prediction. After an error the trace
    ends, `problem` names the error, and the job goes on."""

    def __init__(
        self,
        segment: str,
        path: str,
        rank: int,
        about: TracedJob,
        look: Callable[[], dict[str, int]],
        foreseen: Callable[[], TraceEnd],
    ) -> None:
        """Raises OSError if the file cannot be made."""
        self._file = LaneFile(segment)
        self._rank = rank
        self._look = look
        self._foreseen = foreseen
        self.path = path
        self.problem = ""
        self._taken = self._file.lanes["head"].copy()
        self._counted = self._file.lanes["counters"].copy()
        self._dropped = np.zeros(len(self._taken), np.uint64)
        self._runs: list[bytes] = []
        self._runs_bytes = 0
        self._rows: list[Any] = []
        self._samples: list[Any] = []
        self._sample_due_s = 0.0
        self._flushed_s = self._begun_s = time.monotonic()
        self._stream: BinaryIO = open(path, "xb", buffering=0)  # noqa: SIM115 - for the job's time
        about = replace(about, base_realtime_ns=int(self._file.trace["base_realtime_ns"]))
        self._write(file_header())
        self._put(int(lib.FAN_TRACE_JOB), to_json(about))

    def take(self) -> float:
        """Takes all new notes; returns how many seconds to wait before the next call."""
        heads = self._file.lanes["head"].copy()
        waiting = heads - self._taken
        for number in np.flatnonzero(waiting):
            self._take_lane(int(number))
        if time.monotonic() >= self._sample_due_s:
            self._sample()
        late = self._runs_bytes >= _FLUSH_BYTES or time.monotonic() > self._flushed_s + _FLUSH_S
        if late:
            self._flush()
        if waiting.max() > lib.FAN_RING_NOTES // 4:
            return _HURRY_S
        return _PAUSE_S if waiting.any() else _IDLE_PAUSE_S

    def take_last(self, number: int) -> None:
        """Takes the remaining notes of a lane whose owner has ended, before the lane is freed."""
        self._take_lane(number)
        lost = int(self._file.lanes["head"][number]) - int(self._taken[number])
        self._dropped[number] += np.uint64(lost)  # places that an ended thread never wrote
        self._taken[number] += np.uint64(lost)
        self._note_counts(number, self._now_ns())
        self._counted[number] = 0  # the next owner counts from 0

    def finish(self) -> None:
        """Takes the remaining notes and ends the file."""
        self._sample_due_s = 0.0
        self.take()
        self._flush()
        self._put(int(lib.FAN_TRACE_END), to_json(self._foreseen()))
        self._guarded(lambda: os.fsync(self._stream.fileno()))
        with contextlib.suppress(OSError):
            self._stream.close()

    def _now_ns(self) -> int:
        return time.monotonic_ns() - int(self._file.trace["base_ns"])

    def _take_lane(self, number: int) -> None:
        lane = self._file.lanes[number]
        first = max(int(self._taken[number]), int(lane["first"]))
        notes, lost, end = self._file.notes_of(number, first)
        self._dropped[number] += np.uint64(lost)
        self._taken[number] = end
        if len(notes) == 0:
            return
        notes = np.append(notes, np.uint64(time_note(self._now_ns())))
        run = np.zeros((), _RUN)
        run["lane"], run["process"], run["count"] = number, lane["process"], len(notes)
        self._runs += [run.tobytes(), notes.tobytes()]
        self._runs_bytes += run.nbytes + notes.nbytes

    def _note_counts(self, number: int, end_ns: int = 0) -> None:
        """Adds an entry with the counts of a lane since its last entry."""
        lane = self._file.lanes[number].copy()
        now = lane["counters"].reshape(1).view("<u8")
        before = self._counted[number : number + 1].view("<u8")
        dropped = int(self._dropped[number])
        if end_ns == 0 and not dropped and (now == before).all():
            return
        row = np.zeros((), _PROCESS)
        row["process"], row["lane"], row["end_ns"] = lane["process"], number, end_ns
        for name in ("pid", "pid_space", "start_ns", "comm"):
            row[name] = lane[name]
        row["dropped"] = dropped
        row["counters"] = (now - before).view(_PROCESS["counters"])[0]
        self._counted[number] = lane["counters"]
        self._dropped[number] = 0
        self._rows.append(row)

    def _sample(self) -> None:
        """Adds a sample: the present counts of the programs and the daemon."""
        now_s = time.monotonic()
        self._sample_due_s = now_s + max(_SAMPLE_S, _SAMPLE_PART * (now_s - self._begun_s))
        lanes, ended = self._file.lanes_with_ended()
        counted = summed([*lanes["counters"], ended])
        row = np.zeros((), _SAMPLE)
        row["time_ns"] = self._now_ns()
        for name in ("opens", "remote_opens", "read_bytes"):
            row[name] = counted[name]
        row["stall_ns"], row["stall_bytes"] = counted["stalls"]["ns"], counted["stalls"]["bytes"]
        for name, value in self._look().items():
            row[name] = value
        self._samples.append(row)

    def _flush(self) -> None:
        """Writes the collected notes and samples to the file, and the counts since the last
        call."""
        for number in np.flatnonzero(self._file.lanes["state"] != lib.FAN_LANE_FREE):
            self._note_counts(int(number))
        if self._runs:
            self._put(int(lib.FAN_TRACE_NOTES), b"".join(self._runs))
        if self._rows:
            self._put(int(lib.FAN_TRACE_PROCESSES), np.array(self._rows, _PROCESS).tobytes())
        if self._samples:
            self._put(int(lib.FAN_TRACE_SAMPLES), np.array(self._samples, _SAMPLE).tobytes())
        self._runs, self._rows, self._samples, self._runs_bytes = [], [], [], 0
        self._flushed_s = time.monotonic()

    def _put(self, kind: int, content: bytes) -> None:
        self._write(encode(TraceSection(kind, self._rank, content)))

    def _write(self, data: bytes) -> None:
        self._guarded(lambda: self._write_all(data))

    def _write_all(self, data: bytes) -> None:
        whole_bytes = self._stream.tell()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._stream.write(rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._stream.fileno(), whole_bytes)
            raise

    def _guarded(self, work: Any) -> None:
        """Calls `work`, which writes to the file. Does nothing after an error."""
        if self.problem:
            return
        try:
            work()
        except OSError as error:
            self.problem = f"{self.path}: {error.strerror}: the trace ends here"
            print(f"fanstore: trace: {self.problem}", file=sys.stderr, flush=True)
