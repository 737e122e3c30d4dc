"""Rates are differences of two answers of one daemon, by that daemon's clock alone."""

from __future__ import annotations

import copy
from typing import Any

from fanstore.messages.figures import Counters
from fanstore.messages.job import AbsentRank
from fanstore.messages.message import decode, fields_of
from fanstore.messages.watched import ProgramCounters, RankRates, WatchedRank
from fanstore.watch import rates
from fanstore.watch.rates import SORTS, Row, in_order

SOURCES = ("disk", "cache", "rank", "shared", "output")


def answer(rank: int = 0, **changes: Any) -> dict[str, Any]:
    none_yet = dict.fromkeys(fields_of(ProgramCounters), 0)
    program = {
        "number": 1, "pid": 70, "name": "python", "threads": 2, "clock_s": 100.0,
        "counters": none_yet, "stall_ns": dict.fromkeys(SOURCES, 0),
        "bytes": dict.fromkeys(SOURCES[1:4], 0),
    }  # fmt: skip
    waits = {source: {"count": 0, "ns": 0, "bins": []} for source in SOURCES}
    known = {source: {**waits[source], "bytes": 0} for source in SOURCES[1:4]}
    memory = dict.fromkeys(("limit_bytes", "cache_bytes", "staged_bytes", "tables_bytes"), 0)
    return {
        "rank": rank, "host": f"node{rank}", "state": "serving", "daemon_pid": 7, "clock_s": 100.0,
        "up_s": 5.0, "lost_ranks": [], "counters": dict.fromkeys(fields_of(Counters), 0),
        "node": {}, "outputs": {}, "stalls": waits | known,
        "disk": {"size_bytes": 100, "free_bytes": 25}, "programs": [program],
        "processes": 1, "trace": {}, "order": {}, "raw_calls": [], "memory": memory,
        "first_id": "ab", "world_size": 2, "started_s": 0.0, **changes,
    }  # fmt: skip


def difference(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[Row]:
    return rates.difference(read(before), read(now))


def read(answers: list[dict[str, Any]]) -> list[WatchedRank | AbsentRank]:
    return [
        decode(WatchedRank if each["state"] == "serving" else AbsentRank, each) for each in answers
    ]


def one(before: list[dict[str, Any]], now: dict[str, Any]) -> RankRates:
    (row,) = difference(before, [now])
    assert isinstance(row, RankRates)
    return row


def later(before: dict[str, Any], span_s: float, opens: int, stall_ns: int) -> dict[str, Any]:
    now = copy.deepcopy(before)
    for each in (now, now["programs"][0]):
        each["clock_s"] += span_s
        each["counters"]["opens"] += opens
    now["stalls"]["rank"]["ns"] += stall_ns
    now["programs"][0]["stall_ns"]["rank"] += stall_ns
    return now


def test_rates_are_exact_by_the_daemons_own_clock() -> None:
    first = [answer(0), answer(1, clock_s=9000.0)]
    row, other = difference(
        first, [later(first[0], 2.0, 500, 10**9), later(first[1], 4.0, 500, 10**9)]
    )
    assert isinstance(row, RankRates) and isinstance(other, RankRates)
    assert (row.opens_per_s, other.opens_per_s) == (250.0, 125.0)
    assert row.stall_share == 0.25  # one second of two threads' two
    assert row.stall_shares["rank"] == 0.25 and row.stall_shares["disk"] == 0
    assert row.programs[0].opens_per_s == 250.0
    assert row.disk_fill == 0.75 and row.cache_fill is None


def test_nothing_is_made_up_where_nothing_is_known() -> None:
    first = answer()
    row = one([], first)
    assert row.opens_per_s is None and row.stall_share is None
    row = one([first], later({**first, "daemon_pid": 8}, 2.0, 5, 0))
    assert row.opens_per_s is None
    row = one([first], first)  # the same answer twice
    assert row.opens_per_s is None
    fewer = later(first, 2.0, 100, 0)
    fewer["programs"][0]["counters"]["opens"] = -1  # a thread ended
    row = one([first], fewer)
    assert row.opens_per_s == 50.0 and row.programs[0].opens_per_s is None


def test_what_ended_programs_and_threads_waited_is_not_laid_to_others() -> None:
    first = answer()
    first["programs"].append({**copy.deepcopy(first["programs"][0]), "number": 2, "threads": 6})
    now = later(first, 2.0, 10, 8 * 10**9)
    of_ended = now["programs"].pop()
    row = one([first], now)
    assert row.stall_share == 0.5  # 8 s of the two threads' 4 s and of the six's 12 s
    fewer = {**of_ended, "threads": 1, "clock_s": 102.0, "counters": dict(of_ended["counters"])}
    fewer["counters"]["opens"] = -1
    row = one([first], {**now, "programs": [*now["programs"], fewer]})
    assert row.programs[1].active and row.stall_share == 0.5


def test_no_share_is_told_where_threads_came_and_went_unseen() -> None:
    first = answer()
    row = one([first], later(first, 2.0, 10, 5 * 10**9))  # two threads have but 4 s
    assert row.stall_share is None and row.stall_shares["rank"] is None
    assert row.opens_per_s == 5.0


def test_a_program_that_is_new_has_counted_from_zero() -> None:
    first = answer(programs=[])
    now = later(answer(), 2.0, 80, 0)
    row = one([first], now)
    assert row.programs[0].opens_per_s == 40.0


def test_silent_and_slow_ranks_come_first() -> None:
    first = [answer(rank) for rank in range(3)]
    now = [later(first[0], 1.0, 9, 10), later(first[1], 1.0, 5, 10**9)]
    away = {"rank": 2, "host": "node2", "state": "lost"}
    rows = difference(first, [*now, away])
    assert [row.rank for row in in_order(rows, "stall")] == [2, 1, 0]
    assert [row.rank for row in in_order(rows, "opens")] == [2, 0, 1]
    assert [row.rank for row in in_order(rows, "rank")] == [0, 1, 2]
    assert next(iter(SORTS)) == "stall"
