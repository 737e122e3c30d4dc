"""Answers to the watchers of a job, and the rates that watchers compute from them.
docs/monitoring.md has the schema of the rates, which `fanstore top --json` prints."""

from collections.abc import Mapping, Sequence

from fanstore.messages.figures import Counters
from fanstore.messages.job import SERVING, JobFigures
from fanstore.messages.message import Message, fields_of


class SourceWaits(Message):
    """How long programs waited for one source of data. ns: the sum of all waits; bins: a histogram
    of the waits, by powers of two of ns; bytes: stored bytes read from that source, None if they
    are not counted."""

    count: int
    ns: int
    bins: Sequence[int]
    bytes: int | None = None


class ProgramCounters(Message):
    """The fields of Counters that are also counted for each program."""

    opens: int
    reads: int
    read_bytes: int
    decoded_bytes: int
    errors: int
    cache_hits: int
    cache_misses: int
    remote_bytes: int
    shared_bytes: int


class ProgramCounts(Message):
    """Counts of a rank or a program at time `clock_s` of its daemon's clock. stall_ns, bytes: by
    source."""

    counters: ProgramCounters
    stall_ns: Mapping[str, int]
    bytes: Mapping[str, int]
    clock_s: float


class _ProgramName(Message):
    number: int
    pid: int
    name: str
    threads: int


class ProgramFigures(ProgramCounts, _ProgramName):
    """Counts of a program that reads. number: its number in the job; threads: how many of its
    threads opened something."""


class DiskFigures(Message):
    """Sizes of the file system that holds the local directory."""

    size_bytes: int
    free_bytes: int


class MeasuredRank(JobFigures):
    """Counts of a rank at `clock_s`. stalls: its programs' waits, by source; host: its node; up_s:
    seconds since its daemon began."""

    first_id: str
    rank: int
    world_size: int
    host: str
    daemon_pid: int
    started_s: float
    stalls: Mapping[str, SourceWaits]
    clock_s: float
    up_s: float
    disk: DiskFigures


class WatchedRank(MeasuredRank):
    """The measurements of a rank that serves, and of its programs."""

    programs: Sequence[ProgramFigures]
    state: str = SERVING


class Rates(Message):
    """Rates between two answers, which are `span_s` apart; None if a rate is unknown. bytes_per_s:
    by source; stall_share: the share of all threads' time spent waiting; stall_shares: this share
    by source."""

    span_s: float
    opens_per_s: float | None
    reads_per_s: float | None
    read_bytes_per_s: float | None
    bytes_per_s: Mapping[str, float | None]
    stall_share: float | None
    stall_shares: Mapping[str, float | None]
    hit_rate: float | None


class ProgramRates(Rates, _ProgramName):
    """The rates of a program. active: it opened, read or waited in that time."""

    active: bool


class _RankName(Message):
    rank: int
    host: str
    state: str


class RankRates(Rates, _RankName):
    """The rates of a rank that serves, and some of its present counts. cache_fill, disk_fill:
    shares in use."""

    opens: int
    read_bytes: int
    errors: int
    cache_fill: float | None
    disk_fill: float | None
    outputs_waiting: int
    outputs_waiting_bytes: int
    lost_ranks: Sequence[int]
    up_s: float
    programs: Sequence[ProgramRates]


def some_of(counters: Counters) -> ProgramCounters:
    """Returns the fields of `counters` that are also counted for each program."""
    return ProgramCounters(**{name: getattr(counters, name) for name in fields_of(ProgramCounters)})
