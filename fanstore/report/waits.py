"""When programs waited, without what several threads of one waited at the same time."""

from __future__ import annotations

from typing import Any

from fanstore.arrays import np
from fanstore.report.epochs import covered_before, lone_begins
from fanstore.trace import SOURCES, Trace

Array = Any

_READER_PART = 0.05  # of the opens of the busiest program of its rank


def shares_of(waited: Array, active: Array) -> Array:
    """Divides; where nobody was active nobody waited."""
    return np.divide(waited, active, out=np.zeros_like(waited), where=active > 0)


class Waits:
    """All waits of a trace, in its order: begins and ends, source, rank, and of_readers: whether a
    reader waited. is_reader tells that of each program. Times are in ns since the start of the
    trace; edges_ns are those of bins."""

    def __init__(self, trace: Trace, start_ns: int, edges_ns: Array) -> None:
        stalls = trace.stalls
        self.start_ns, self.edges_ns = start_ns, edges_ns
        self.source = stalls["source"]
        self.ends = stalls["time_ns"] - start_ns
        self.begins = lone_begins(self.ends - stalls["duration_ns"], self.ends, stalls["process"])
        self.rank = trace.processes["rank"][stalls["process"]]
        self.is_reader = _readers(trace)
        self.of_readers = self.is_reader[stalls["process"]]
        self._firsts, self._lasts = _active(trace, start_ns)

    def active(self, programs: Array) -> Array:
        """Returns how long some programs ran in each bin, added up, in ns."""
        firsts, lasts = self._firsts[programs], self._lasts[programs]
        return np.diff(covered_before(firsts, lasts, self.edges_ns))

    def active_s(self, programs: Array) -> float:
        """Returns how long some programs ran, added up."""
        return float((self._lasts[programs] - self._firsts[programs]).sum()) / 1e9

    def in_bins(self, which: Array) -> Array:
        """Returns how long some waits were in each bin, added up, in ns."""
        return np.diff(covered_before(self.begins[which], self.ends[which], self.edges_ns))

    def by_source(self) -> Array:
        """Returns the waits of all readers in ns, of shape (sources, bins)."""
        return np.stack(
            [self.in_bins(self.of_readers & (self.source == n)) for n in range(len(SOURCES))]
        )

    def seconds(self, which: Array) -> float:
        """Returns how long some waits took together."""
        return float((self.ends[which] - self.begins[which]).sum()) / 1e9

    def shares_between(self, programs: Array, which: Array, edges_ns: Array) -> Array:
        """Returns which part of the time of some programs was spent in some waits, between each two
        edges."""
        firsts, lasts = self._firsts[programs], self._lasts[programs]
        active = np.diff(covered_before(firsts, lasts, edges_ns))
        waited = np.diff(covered_before(self.begins[which], self.ends[which], edges_ns))
        return shares_of(waited, active)


def _readers(trace: Trace) -> Array:
    """Tells for each program whether it is one that reads."""
    opens, rank = trace.counts["opens"].astype(np.float64), trace.processes["rank"]
    busiest = np.zeros(len(opens))
    for each in np.unique(rank):
        busiest[rank == each] = opens[rank == each].max()
    return (opens > 0) & (opens >= _READER_PART * busiest)


def _active(trace: Trace, start_ns: int) -> tuple[Array, Array]:
    """Returns when each program did something first and last, since the start, in ns."""
    firsts = np.full(len(trace.processes), np.iinfo(np.int64).max)
    lasts = np.zeros(len(trace.processes), np.int64)
    starts = trace.processes["start_ns"]
    firsts[starts > 0] = starts[starts > 0] - start_ns
    zero = np.zeros(1, np.int64)
    tables = (
        (trace.opens, zero),
        (trace.blocks, zero),
        (trace.stalls, trace.stalls["duration_ns"]),
    )
    for table, back_ns in tables:
        times = table["time_ns"] - start_ns
        np.minimum.at(firsts, table["process"], times - back_ns)
        np.maximum.at(lasts, table["process"], times)
    return np.minimum(firsts, lasts), lasts
