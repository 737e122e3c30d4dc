"""What watchers of a job are told, and the rates that they make of it. docs/monitoring.md has the
schema of the rates, which `fanstore top --json` prints."""

from collections.abc import Mapping, Sequence

from fanstore.messages.figures import Counters
from fanstore.messages.job import SERVING, JobFigures
from fanstore.messages.message import Message


class SourceWaits(Message):
    """Waits for one source. ns: all together; bins: a histogram of them, by powers of two of ns;
    bytes: stored bytes that came from there, None where that is not counted."""

    count: int
    ns: int
    bins: Sequence[int]
    bytes: int | None = None


class ProgramCounters(Message):
    """Some of Counters, as each program has them."""

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
    """What a rank or a program has counted by a time, `clock_s`, of its daemon's clock. stall_ns,
    bytes: by source."""

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
    """A program that reads. number: in its job; threads: those that opened something."""


class DiskFigures(Message):
    """The file system of the local directory."""

    size_bytes: int
    free_bytes: int


class MeasuredRank(JobFigures):
    """What a rank has counted by `clock_s`, and by source what its programs waited for. host: its
    node; up_s: since its daemon began."""

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
    """The same of a rank that serves, with its programs."""

    programs: Sequence[ProgramFigures]
    state: str = SERVING


class Rates(Message):
    """Rates between two looks, `span_s` apart; None where they are not known. bytes_per_s: by
    source; stall_share: of the time of all threads, how much they waited, by source in
    stall_shares."""

    span_s: float
    opens_per_s: float | None
    reads_per_s: float | None
    read_bytes_per_s: float | None
    bytes_per_s: Mapping[str, float | None]
    stall_share: float | None
    stall_shares: Mapping[str, float | None]
    hit_rate: float | None


class ProgramRates(Rates, _ProgramName):
    """Those of a program. active: it did something."""

    active: bool


class _RankName(Message):
    rank: int
    host: str
    state: str


class RankRates(Rates, _RankName):
    """Those of a rank that serves, and what it holds now. cache_fill, disk_fill: shares."""

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
    """Returns the counters that programs have, too."""
    return ProgramCounters(
        opens=counters.opens,
        reads=counters.reads,
        read_bytes=counters.read_bytes,
        decoded_bytes=counters.decoded_bytes,
        errors=counters.errors,
        cache_hits=counters.cache_hits,
        cache_misses=counters.cache_misses,
        remote_bytes=counters.remote_bytes,
        shared_bytes=counters.shared_bytes,
    )
