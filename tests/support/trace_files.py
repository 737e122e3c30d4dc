"""Makes traces for tests: a kept one, as a daemon would write it, of events that a test names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fanstore._native import dtype_of, lib
from fanstore.arrays import np
from fanstore.trace.sections import SOURCES, TraceSection, encode, file_header
from fanstore.trace.tables import time_note

BASE_NS = 1_700_000_000_000_000_000
_PROCESS = dtype_of("struct fan_traced_process")
_RUN = dtype_of("struct fan_traced_run")
_SAMPLE = dtype_of("struct fan_traced_sample")
NO_FILE = 0xFFFFFFFF  # FAN_NOTE_NO_FILE


def note(kind: int, mount: int = 0, file: int = 0, payload: int = 0) -> int:
    """Returns a note with no lap (csrc/format/trace_format.h)."""
    return kind << 61 | mount << 56 | file << 24 | payload


def stall_payload(source: int, duration_ns: int) -> int:
    """Returns the payload of a stall: the time is cut to its highest 16 bits."""
    exponent = max(0, duration_ns.bit_length() - 16)
    return (source << 5 | exponent) << 16 | duration_ns >> exponent


class RankTrace:
    """The trace of one rank. Times are in ns since BASE_NS; each process has one lane."""

    def __init__(self, rank: int = 0, host: str = "node0", **about: Any) -> None:
        self.rank = rank
        self.about = {"job_id": "0123abcd", "host": host, "base_realtime_ns": BASE_NS, **about}
        self.processes = np.zeros(0, _PROCESS)
        self.notes: dict[int, list[int]] = {}
        self.samples = np.zeros(0, _SAMPLE)
        self.last = b""

    def process(
        self, pid: int, comm: str = "python", start_ns: int = 0, end_ns: int = 0, dropped: int = 0
    ) -> int:
        """Adds a process; returns its number, from 1."""
        row = np.zeros(1, _PROCESS)
        number = len(self.processes) + 1
        row["process"], row["lane"], row["pid"], row["dropped"] = number, number, pid, dropped
        row["start_ns"], row["end_ns"] = start_ns, end_ns
        row["comm"] = np.frombuffer(comm.encode()[:15].ljust(16, b"\0"), np.uint8)
        self.processes = np.append(self.processes, row)
        self.notes[number] = [time_note(start_ns)]
        return number

    def counters(self, process: int) -> Any:
        """The counters of a process: an array whose fields a test may set."""
        return self.processes[process - 1 : process]["counters"]

    def open(self, process: int, time_ns: int, file: int, dataset: int = 0) -> None:
        """A process opens a file, which its counters count."""
        self._at(process, time_ns, note(int(lib.FAN_NOTE_OPEN), dataset, file))
        self.counters(process)["opens"] += 1

    def block(self, process: int, time_ns: int, file: int, block: int, dataset: int = 0) -> None:
        """A process goes on to a MiB of a large file."""
        self._at(process, time_ns, note(int(lib.FAN_NOTE_BLOCK), dataset, file, block))

    def stall(
        self,
        process: int,
        time_ns: int,
        source: str,
        duration_ns: int,
        file: int = NO_FILE,
        dataset: int = 0,
    ) -> None:
        """A process has waited; time_ns is the end. Its counters count it."""
        number = SOURCES.index(source)
        payload = stall_payload(number, duration_ns)
        self._at(process, time_ns, note(int(lib.FAN_NOTE_STALL), dataset, file, payload))
        stalls = self.counters(process)["stalls"][0, number : number + 1]
        stalls["count"] += 1
        stalls["ns"] += duration_ns
        bins = stalls["bins"][0]
        bins[min(len(bins), max(1, duration_ns.bit_length())) - 1] += 1

    def sample(self, time_ns: int, **values: Any) -> None:
        """Adds a sample; values: fields of `struct fan_traced_sample`."""
        row = np.zeros(1, _SAMPLE)
        row["time_ns"] = time_ns
        for name, value in values.items():
            row[name] = value
        self.samples = np.append(self.samples, row)

    def _at(self, process: int, time_ns: int, what: int) -> None:
        self.notes[process] += [time_note(time_ns), what, time_note(time_ns)]

    def runs(self) -> bytes:
        """All notes, as the content of one section."""
        parts = []
        for process, notes in self.notes.items():
            run = np.zeros((), _RUN)
            run["lane"], run["process"], run["count"] = process, process, len(notes)
            parts.append(run.tobytes() + np.array(notes, np.uint64).tobytes())
        return b"".join(parts)

    def sections(self, whole: bool = True) -> list[TraceSection]:
        """The sections of this rank, with the one that says that it is whole."""
        made = [
            TraceSection(int(lib.FAN_TRACE_JOB), self.rank, json.dumps(self.about).encode()),
            TraceSection(int(lib.FAN_TRACE_NOTES), self.rank, self.runs()),
            TraceSection(int(lib.FAN_TRACE_PROCESSES), self.rank, self.processes.tobytes()),
            TraceSection(int(lib.FAN_TRACE_SAMPLES), self.rank, self.samples.tobytes()),
        ]
        return (
            [*made, TraceSection(int(lib.FAN_TRACE_END), self.rank, self.last)] if whole else made
        )


def trace_bytes(*ranks: RankTrace, whole: bool = True) -> bytes:
    """Returns a kept trace of some ranks."""
    sections = [each for rank in ranks for each in rank.sections(whole)]
    return file_header() + b"".join(map(encode, sections))


def write_trace(path: Path, *ranks: RankTrace, whole: bool = True) -> Path:
    """Writes a kept trace of some ranks; returns its path."""
    path.write_bytes(trace_bytes(*ranks, whole=whole))
    return path
