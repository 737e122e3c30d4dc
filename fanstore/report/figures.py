"""Computes the figures of a report from a trace, for the page, the plots and the JSON. If several
threads of a program wait at the same time, that time counts once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fanstore.arrays import np
from fanstore.report.catalogue import NOBODY, CatalogueEntry, shown
from fanstore.report.epochs import covered_before, epoch_starts, lone_begins
from fanstore.trace import SOURCES, Trace

_READER_PART = 0.05  # part of the opens of the busiest program of its rank


def shares_of(waited: Array, active: Array) -> Array:
    """Returns waited / active; 0 where active is 0."""
    return np.divide(waited, active, out=np.zeros_like(waited), where=active > 0)


class Waits:
    """All waits of a trace, in order: their begins and ends, source, rank, and whether a reader
    waited (of_readers). is_reader: whether each program is a reader. Times are in ns since the
    start of the trace; edges_ns are the edges of bins."""

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
        """Returns how long these programs ran in each bin, in sum, in ns."""
        firsts, lasts = self._firsts[programs], self._lasts[programs]
        return np.diff(covered_before(firsts, lasts, self.edges_ns))

    def active_s(self, programs: Array) -> float:
        """Returns how long these programs ran, in sum, in seconds."""
        return float((self._lasts[programs] - self._firsts[programs]).sum()) / 1e9

    def in_bins(self, which: Array) -> Array:
        """Returns how long these waits took in each bin, in sum, in ns."""
        return np.diff(covered_before(self.begins[which], self.ends[which], self.edges_ns))

    def by_source(self) -> Array:
        """Returns the waits of all readers in ns, shape (sources, bins)."""
        return np.stack(
            [self.in_bins(self.of_readers & (self.source == n)) for n in range(len(SOURCES))]
        )

    def seconds(self, which: Array) -> float:
        """Returns how long these waits took, in sum, in seconds."""
        return float((self.ends[which] - self.begins[which]).sum()) / 1e9

    def shares_between(self, programs: Array, which: Array, edges_ns: Array) -> Array:
        """Returns the part of these programs' time that these waits took, between each two
        edges."""
        firsts, lasts = self._firsts[programs], self._lasts[programs]
        active = np.diff(covered_before(firsts, lasts, edges_ns))
        waited = np.diff(covered_before(self.begins[which], self.ends[which], edges_ns))
        return shares_of(waited, active)


def _readers(trace: Trace) -> Array:
    """Returns for each program whether it is a reader."""
    opens, rank = trace.counts["opens"].astype(np.float64), trace.processes["rank"]
    busiest = np.zeros(len(opens))
    for each in np.unique(rank):
        busiest[rank == each] = opens[rank == each].max()
    return (opens > 0) & (opens >= _READER_PART * busiest)


def _active(trace: Trace, start_ns: int) -> tuple[Array, Array]:
    """Returns the times of the first and the last event of each program, since the start, in ns."""
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


Array = Any

BINS = 150
_NUMBERS = range(len(SOURCES))


@dataclass(frozen=True)
class RankFigures:
    """One rank. readers: its programs that open at least a twentieth as much as its busiest.
    active_s: how long they ran, in total, each from its first event to its last; waited_s: how much
    of that time at least one of a program's threads waited, by source. waited_for_s: waits for
    other ranks, by rank. waits, mean_wait_s, stall_bytes: of all programs, by source, exact.
    shares: the waited part of active time in each bin. epoch_starts_s: since the job's start."""

    rank: int
    host: str
    programs: int
    readers: int
    opens: int
    read_bytes: int
    active_s: float
    waited_s: Array
    waited_for_s: dict[int, float]
    waits: Array
    mean_wait_s: Array
    stall_bytes: Array
    shares: Array
    opens_per_s: Array
    epoch_starts_s: list[float]
    epoch_shares: list[float]

    @property
    def share(self) -> float:
        """The part of its readers' time that was spent waiting, 0 to 1."""
        return float(self.waited_s.sum()) / self.active_s if self.active_s else 0.0


@dataclass(frozen=True)
class Figures:
    """edges_s: of BINS bins of time since the start; source_shares: the waited part of the active
    time of all ranks, by source and bin; bins: the histograms of waits, by source and power of two
    of ns; waits: the number of waits, by source; stall_bytes: bytes that came from each source."""

    start_ns: int
    duration_s: float
    edges_s: Array
    ranks: list[RankFigures]
    source_shares: Array
    bins: Array
    waits: Array
    waited_ns: Array
    stall_bytes: Array
    dropped: int
    problem: str
    job_id: str
    world_size: int
    datasets: list[CatalogueEntry] = field(default_factory=list)

    @property
    def epochs(self) -> int:
        """The largest number of epochs of a rank."""
        return max((len(each.epoch_starts_s) for each in self.ranks), default=0)

    def waited_s(self) -> Array:
        """Returns how long all readers waited, by source."""
        return sum((each.waited_s for each in self.ranks), np.zeros(len(SOURCES)))

    def active_s(self) -> float:
        """Returns how long all readers ran, in sum."""
        return sum(each.active_s for each in self.ranks)

    def share(self) -> float:
        """Returns the part of their time that all readers waited, 0 to 1."""
        active_s = self.active_s()
        return float(self.waited_s().sum()) / active_s if active_s else 0.0


def file_keys(table: Array) -> Array:
    """Returns for each row of a table a number that identifies its file in the job."""
    return table["dataset"].astype(np.int64) << 32 | table["file"]


def work_out(trace: Trace, datasets: Sequence[CatalogueEntry]) -> Figures:
    """Computes the figures of a report."""
    start_ns, end_ns = _span(trace)
    edges_ns = np.linspace(0, max(end_ns - start_ns, 1), BINS + 1)
    waits = Waits(trace, start_ns, edges_ns)
    about = trace.ranks[0] if trace.ranks else {}
    ranks = [_of_rank(trace, waits, each, datasets) for each in trace.ranks]
    stalls = trace.counts["stalls"]
    return Figures(
        start_ns=start_ns,
        duration_s=(end_ns - start_ns) / 1e9,
        edges_s=edges_ns / 1e9,
        ranks=ranks,
        source_shares=shares_of(waits.by_source(), waits.active(waits.is_reader)),
        bins=stalls["bins"].sum(axis=0),
        waits=stalls["count"].sum(axis=0),
        waited_ns=stalls["ns"].sum(axis=0),
        stall_bytes=stalls["bytes"].sum(axis=0),
        dropped=int(trace.processes["dropped"].sum()),
        problem=trace.problem,
        job_id=str(about.get("job_id", "")),
        world_size=_count(about.get("world_size"), len(ranks)),
        datasets=list(datasets),
    )


def _count(value: Any, least: int) -> int:
    return max(value, least) if type(value) is int and value < 1 << 20 else least


def _span(trace: Trace) -> tuple[int, int]:
    """Returns the times of the first and the last event in a trace; 0 and 0 if there is none."""
    stalls, programs = trace.stalls, trace.processes
    times = np.concatenate([
        trace.opens["time_ns"], stalls["time_ns"] - stalls["duration_ns"], stalls["time_ns"],
        trace.blocks["time_ns"], trace.samples["time_ns"].astype(np.int64),
        programs["start_ns"][programs["start_ns"] > 0],
    ])  # fmt: skip
    return (int(times.min()), int(times.max())) if len(times) else (0, 0)


def _of_rank(
    trace: Trace, waits: Waits, about: dict[str, Any], datasets: Sequence[CatalogueEntry]
) -> RankFigures:
    rank = int(about["rank"])
    mine = trace.processes["rank"] == rank
    readers, waited = mine & waits.is_reader, waits.of_readers & (waits.rank == rank)
    opens = trace.opens[mine[trace.opens["process"]]]
    times_ns = opens["time_ns"] - waits.start_ns
    of_reader = readers[opens["process"]]
    starts = epoch_starts(file_keys(opens[of_reader]))
    starts_s = [float(each) / 1e9 for each in times_ns[of_reader][starts]]
    stalls = trace.counts["stalls"]
    counts = stalls["count"][mine].sum(axis=0)
    by_bin = np.histogram(times_ns, waits.edges_ns)[0]
    return RankFigures(
        rank=rank,
        host=shown(str(about.get("host", "")).encode("utf-8", "surrogatepass")),
        programs=int((mine & (trace.processes["number"] > 0)).sum()),
        readers=int(readers.sum()),
        opens=int(trace.counts["opens"][mine].sum()),
        read_bytes=int(trace.counts["read_bytes"][mine].sum()),
        active_s=waits.active_s(readers),
        waited_s=np.array([waits.seconds(waited & (waits.source == n)) for n in _NUMBERS]),
        waits=counts,
        mean_wait_s=stalls["ns"][mine].sum(axis=0) / np.maximum(counts, 1) / 1e9,
        stall_bytes=stalls["bytes"][mine].sum(axis=0),
        waited_for_s=_waited_for(trace, waits, waited, datasets),
        shares=shares_of(waits.in_bins(waited), waits.active(readers)),
        opens_per_s=by_bin / (waits.edges_ns[1] / 1e9),
        epoch_starts_s=starts_s,
        epoch_shares=_epoch_shares(waits, readers, waited, starts_s),
    )


def _waited_for(
    trace: Trace, waits: Waits, which: Array, datasets: Sequence[CatalogueEntry]
) -> dict[int, float]:
    """Returns how long programs waited for other ranks, in seconds, by the rank that has the file;
    NOBODY if that is unknown."""
    which = which & (waits.source == SOURCES.index("rank"))
    stalls, askers = trace.stalls[which], waits.rank[which]
    keepers = np.full(len(stalls), NOBODY)
    for number, entry in enumerate(datasets):
        own = stalls["dataset"] == number
        keepers[own] = entry.keepers(stalls["file"][own], askers[own])
    if len(trace.ranks) == 2:  # with two ranks, only the other one can have the file
        keepers = np.where(
            askers == trace.ranks[0]["rank"], *(r["rank"] for r in trace.ranks[::-1])
        )
    lengths_s = (waits.ends[which] - waits.begins[which]) / 1e9
    return {int(keeper): float(lengths_s[keepers == keeper].sum()) for keeper in np.unique(keepers)}


def _epoch_shares(
    waits: Waits, readers: Array, waited: Array, starts_s: Sequence[float]
) -> list[float]:
    """Returns, for each epoch of a rank, the part of the time that its readers waited. The first
    epoch includes the time before the first open."""
    if not starts_s:
        return []
    edges = np.r_[0.0, np.array(starts_s[1:]) * 1e9, waits.edges_ns[-1]]
    return [float(share) for share in waits.shares_between(readers, waited, edges)]
