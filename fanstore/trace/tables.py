"""A trace in memory: a table for each kind of thing in it, as NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fanstore._native import dtype_of
from fanstore.arrays import np

Table = Any  # a structured NumPy array

# What was waited for, by number (csrc/format/trace_format.h).
SOURCES = ("disk", "cache", "rank", "shared", "output")

NO_FILE = 0xFFFFFFFF

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
    """What programs of a job did. Times are in ns since 1970.

    ranks: for each rank what it says of itself (job_id, rank, host, datasets), by number.
    processes: a row for each program: rank, number (on that rank, from 1), pid and pid_space (the
        inode number of its PID namespace), host, comm (its name), start_ns, end_ns (0: it ran),
        dropped (notes of it that were lost, as nobody read them in time). number 0 of a rank stands
        for threads that found no lane, and in a live trace for the programs that have ended, too.
    counts: for the same rows, what they did, exactly: `struct fan_counters` with the fields opens,
        reads, read_bytes and so on, and `stalls`, which holds count, ns, bytes and bins for each of
        SOURCES. bins[n]: how many waits took from 2**n ns on, less than 2**(n+1).
    opens: time_ns, process (a row of `processes`), dataset (its place in the job), file (record).
        A time is exact to what lies between two of a thread's time notes: 64 opens, or 0.1 s.
    blocks: reads that went on to a further MiB of a large file; block: which MiB.
    stalls: waits, at their ends; source (a number of SOURCES), duration_ns, file (NO_FILE: none).
    problem: why the rest of a file could not be read, or "".
    samples: of a kept trace, what each rank had counted by some times, and how its daemon was then:
        rank, and the fields of `struct fan_traced_sample`.

    Each table is sorted by time; `opens`, `blocks` and `stalls` lack what `dropped` counts.
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
        """Returns the sum of one counter over all programs, such as "opens"."""
        return int(self.counts[name].sum())

    def stall_ns(self) -> Table:
        """Returns the time that each program waited for each source: an array of shape (programs,
        len(SOURCES)), ns."""
        return self.counts["stalls"]["ns"]

    def stall_bins(self) -> Table:
        """Returns the histograms of waits: an array of shape (programs, len(SOURCES), bins)."""
        return self.counts["stalls"]["bins"]


def by_time(parts: list[Table], dtype: np.dtype[Any]) -> Table:
    """Joins tables, sorted by time; what has one time stays in its order."""
    table = np.concatenate(parts) if parts else np.empty(0, dtype)
    return table[np.argsort(table["time_ns"], kind="stable")]


def summed(rows: Any) -> Table:
    """Returns the sum of several `struct fan_counters`, field by field."""
    total = np.zeros((), COUNTS)
    words = total.reshape(1).view("<u8")
    for row in rows:
        words += np.ascontiguousarray(row).reshape(1).view("<u8")
    return total
