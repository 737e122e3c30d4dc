"""Computes rates of ranks and programs: differences between two answers of a daemon, by its own
clock. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from fanstore.messages.job import SERVING, AbsentRank
from fanstore.messages.message import fields_of, values_of
from fanstore.messages.watched import (
    ProgramCounters,
    ProgramCounts,
    ProgramRates,
    RankRates,
    Rates,
    WatchedRank,
    some_of,
)

Row = RankRates | AbsentRank


def rank_rates(before: WatchedRank | None, now: WatchedRank) -> RankRates:
    """Returns the rates of a rank between two of its answers, and its present counts. before: None
    if there is no earlier answer; then all rates are None."""
    if before is not None and before.daemon_pid != now.daemon_pid:
        before = None
    programs = _programs(before, now)
    threads = sum(each.threads for each in programs if each.active)
    threads += _threads_of_ended(before, now)
    rates = _rates(None if before is None else _counted(before), _counted(now), threads)
    node, disk, outputs = now.node, now.disk, now.outputs
    return RankRates(
        rank=now.rank,
        host=now.host,
        state=SERVING,
        **values_of(rates),
        opens=now.counters.opens,
        read_bytes=now.counters.read_bytes,
        errors=now.counters.errors,
        cache_fill=None if node is None else _share(node.resident_bytes, node.cache_bytes),
        disk_fill=_share(disk.size_bytes - disk.free_bytes, disk.size_bytes),
        outputs_waiting=0 if outputs is None else outputs.waiting,
        outputs_waiting_bytes=0 if outputs is None else outputs.waiting_bytes,
        lost_ranks=now.lost_ranks,
        up_s=now.up_s,
        programs=programs,
    )


def _counted(rank: WatchedRank) -> ProgramCounts:
    """Returns a rank's counts in the type of a program's counts."""
    return ProgramCounts(
        clock_s=rank.clock_s,
        counters=some_of(rank.counters),
        stall_ns={source: waits.ns for source, waits in rank.stalls.items()},
        bytes={s: waits.bytes for s, waits in rank.stalls.items() if waits.bytes is not None},
    )


def _programs(before: WatchedRank | None, now: WatchedRank) -> list[ProgramRates]:
    old = {} if before is None else {each.number: each for each in before.programs}
    rows = []
    for each in now.programs:
        known = old.get(each.number)
        # A new program's counts began at 0, after the earlier answer.
        first = None if before is None else _zeros(each, before.clock_s)
        rates = _rates(known or first, each, each.threads)
        threads = each.threads
        # When a thread ends, its program's counts fall: so the program was active.
        fell = known is not None and rates.span_s > 0 and rates.opens_per_s is None
        if fell and known is not None:
            threads = max(threads, known.threads)
        rows.append(
            ProgramRates(
                number=each.number,
                pid=each.pid,
                name=each.name,
                threads=threads,
                **values_of(rates),
                active=fell or _is_active(rates),
            )
        )
    return rows


def _threads_of_ended(before: WatchedRank | None, now: WatchedRank) -> int:
    """Returns how many threads the ended programs had. The rank's counts contain their waits, which
    would otherwise seem to be those of other threads."""
    there = {each.number for each in now.programs}
    old = () if before is None else before.programs
    return sum(each.threads for each in old if each.number not in there)


def _zeros(like: ProgramCounts, clock_s: float) -> ProgramCounts:
    return ProgramCounts(
        clock_s=clock_s,
        counters=ProgramCounters(**dict.fromkeys(fields_of(ProgramCounters), 0)),
        stall_ns=dict.fromkeys(like.stall_ns, 0),
        bytes=dict.fromkeys(like.bytes, 0),
    )


def _is_active(rates: Rates) -> bool:
    known = (rates.opens_per_s, rates.reads_per_s, rates.read_bytes_per_s, rates.stall_share)
    return any(known)


def _minus(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {name: count - before[name] for name, count in now.items()}


def _rates(before: ProgramCounts | None, now: ProgramCounts, threads: int) -> Rates:
    """Returns rates per second; stall_share: the share of the time of `threads` spent waiting. A
    rate is None if it is not known: at first, and when a thread has ended, because its counts leave
    its program. A share is also None if the waits exceed the time of `threads`, because other
    threads came and went meanwhile."""
    since = before or _zeros(now, now.clock_s)
    span_s = now.clock_s - since.clock_s
    differences = _minus(values_of(now.counters), values_of(since.counters))
    counted = ProgramCounters(**differences)
    waited, came = _minus(now.stall_ns, since.stall_ns), _minus(now.bytes, since.bytes)
    known = span_s > 0 and all(n >= 0 for n in (*differences.values(), *waited.values()))
    of_threads_ns = span_s * 1e9 * max(threads, 1)
    waited_ns = sum(waited.values())

    def share(ns: float) -> float | None:
        return ns / of_threads_ns if known and waited_ns <= of_threads_ns else None

    def per(count: float, of: float) -> float | None:
        return count / of if known else None

    # Decoded bytes are not stored bytes: if files were decoded, the local share is unknown.
    local = counted.read_bytes - sum(came.values())
    known_local = local >= 0 and not counted.decoded_bytes
    looked = counted.cache_hits + counted.cache_misses
    return Rates(
        span_s=span_s,
        opens_per_s=per(counted.opens, span_s),
        reads_per_s=per(counted.reads, span_s),
        read_bytes_per_s=per(counted.read_bytes, span_s),
        bytes_per_s={
            "local": per(local, span_s) if known_local else None,
            **{source: per(count, span_s) for source, count in came.items()},
        },
        stall_share=share(waited_ns),
        stall_shares={source: share(ns) for source, ns in waited.items()},
        hit_rate=per(counted.cache_hits, looked) if looked else None,
    )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _of(rates: Callable[[RankRates], float | None]) -> Callable[[Row], float]:
    """Returns a sort key for a rate: highest first, rows without a rate last."""
    return lambda row: 0.0 if isinstance(row, AbsentRank) else -(rates(row) or 0.0)


# The orders of rows. The first is the default, with slow ranks first.
SORTS: Mapping[str, Callable[[Row], float]] = {
    "stall": _of(lambda row: row.stall_share),
    "opens": _of(lambda row: row.opens_per_s),
    "bytes": _of(lambda row: row.read_bytes_per_s),
    "rank": lambda row: row.rank,
}


def in_order(rows: Iterable[Row], sort: str) -> list[Row]:
    """Returns rows of ranks sorted by one of SORTS; ranks that do not answer come first, except for
    "rank"."""

    def key(row: Row) -> tuple[bool, float, int]:
        is_up = sort == "rank" or isinstance(row, RankRates)
        return is_up, SORTS[sort](row), row.rank

    return sorted(rows, key=key)


def difference(
    before: Sequence[WatchedRank | AbsentRank], now: Sequence[WatchedRank | AbsentRank]
) -> list[Row]:
    """Returns the rates of all ranks between two answers of each, in the order of `now`; for a rank
    that does not answer, only its state."""
    old = {each.rank: each for each in before if isinstance(each, WatchedRank)}
    return [
        each if isinstance(each, AbsentRank) else rank_rates(old.get(each.rank), each)
        for each in now
    ]
