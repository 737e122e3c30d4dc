"""Rates of ranks and programs: differences of two answers of a daemon, by its own clock (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fanstore.watch.gather import SERVING

Row = dict[str, Any]

_PER_S = ("opens", "reads", "read_bytes")


def rank_rates(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Row:
    """Returns the rates of a rank between two of its answers, and what it holds now. before: None
    where there is none yet: then no rate is known (None). Of a rank that does not answer, only the
    state. The schema is in docs/monitoring.md."""
    row: Row = {name: now[name] for name in ("rank", "host", "state", "silent_s") if name in now}
    if now["state"] != SERVING:
        return row
    if before is not None and before.get("daemon_pid") != now["daemon_pid"]:
        before = None
    programs = _programs(before, now)
    threads = sum(each["threads"] for each in programs if each["active"])
    threads += _threads_of_ended(before, now)
    row |= _rates(None if before is None else _flat(before), _flat(now), threads)
    row |= _held(now)
    row["programs"] = programs
    return row


def _flat(answer: Mapping[str, Any]) -> Row:
    """Returns the counts of a rank in the form in which those of a program are."""
    return {
        "clock_s": answer["clock_s"],
        "counters": answer["counters"],
        "stall_ns": {source: waits["ns"] for source, waits in answer["stalls"].items()},
        "bytes": {s: waits["bytes"] for s, waits in answer["stalls"].items() if "bytes" in waits},
    }


def _held(now: Mapping[str, Any]) -> Row:
    node, disk, outputs = now["node"], now["disk"], now["outputs"]
    return {
        "opens": now["counters"]["opens"],
        "read_bytes": now["counters"]["read_bytes"],
        "errors": now["counters"]["errors"],
        "cache_fill": _share(node.get("resident_bytes", 0), node.get("cache_bytes", 0)),
        "disk_fill": _share(disk["size_bytes"] - disk["free_bytes"], disk["size_bytes"]),
        "outputs_waiting": outputs.get("waiting", 0),
        "outputs_waiting_bytes": outputs.get("waiting_bytes", 0),
        "lost_ranks": now["lost_ranks"],
        "up_s": now["up_s"],
    }


def _programs(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> list[Row]:
    old = {} if before is None else {each["number"]: each for each in before["programs"]}
    rows = []
    for each in now["programs"]:
        # One that was not there before has counted from 0 since.
        first = None if before is None else {**_zeros(each), "clock_s": before["clock_s"]}
        rates = _rates(old.get(each["number"], first), each, each["threads"])
        row = {name: each[name] for name in ("number", "pid", "name", "threads")}
        # One of whose threads some ended has counts that fell: it did something, too.
        fell = each["number"] in old and rates["span_s"] > 0 and rates["opens_per_s"] is None
        if fell:
            row["threads"] = max(row["threads"], old[each["number"]]["threads"])
        rows.append({**row, **rates, "active": fell or _is_active(rates)})
    return rows


def _threads_of_ended(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> int:
    """Returns how many threads had the programs that ended: what they waited is in the rank's
    counts, and would else be laid to the others."""
    there = {each["number"] for each in now["programs"]}
    old = () if before is None else before["programs"]
    return sum(each["threads"] for each in old if each["number"] not in there)


def _zeros(program: Mapping[str, Any]) -> Row:
    return {
        name: dict.fromkeys(program[name], 0) for name in ("counters", "stall_ns", "bytes")
    }  # fmt: skip


def _is_active(rates: Row) -> bool:
    return any(rates[f"{name}_per_s"] for name in _PER_S) or bool(rates["stall_share"])


def _rates(before: Mapping[str, Any] | None, now: Mapping[str, Any], threads: int) -> Row:
    """Returns rates per second; stall_share: of the time of `threads`, how much they waited. None
    where they are not known: at first, and when a thread ended, whose counts leave its program;
    shares also where more was waited than `threads` can, as others came and went meanwhile."""
    span_s = 0.0 if before is None else now["clock_s"] - before["clock_s"]
    counted, waited, came = (
        {name: count - (0 if before is None else before[table][name])
         for name, count in now[table].items()}
        for table in ("counters", "stall_ns", "bytes")
    )  # fmt: skip
    known = span_s > 0 and all(n >= 0 for n in (*counted.values(), *waited.values()))
    of_threads_ns = span_s * 1e9 * max(threads, 1)
    waited_ns = sum(waited.values())

    def share(ns: float) -> float | None:
        return ns / of_threads_ns if known and waited_ns <= of_threads_ns else None

    def per(count: float, of: float) -> float | None:
        return count / of if known else None

    # What was decoded has another size than what was stored: then nobody knows.
    local = counted["read_bytes"] - sum(came.values())
    known_local = local >= 0 and not counted["decoded_bytes"]
    looked = counted["cache_hits"] + counted["cache_misses"]
    return {
        "span_s": span_s,
        **{f"{name}_per_s": per(counted[name], span_s) for name in _PER_S},
        "bytes_per_s": {
            "local": per(local, span_s) if known_local else None,
            **{source: per(count, span_s) for source, count in came.items()},
        },
        "stall_share": share(waited_ns),
        "stall_shares": {source: share(ns) for source, ns in waited.items()},
        "hit_rate": per(counted["cache_hits"], looked) if looked else None,
    }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


# By what rows are sorted: the first is the default, slow ranks first.
SORTS: Mapping[str, Callable[[Row], Any]] = {
    "stall": lambda row: -(row.get("stall_share") or 0.0),
    "opens": lambda row: -(row.get("opens_per_s") or 0.0),
    "bytes": lambda row: -(row.get("read_bytes_per_s") or 0.0),
    "rank": lambda row: row.get("rank", 0),
}


def in_order(rows: Iterable[Row], sort: str) -> list[Row]:
    """Returns rows of ranks by one of SORTS; those that do not answer come first but for "rank"."""
    is_up = (lambda _: True) if sort == "rank" else (lambda row: row["state"] == SERVING)
    return sorted(rows, key=lambda row: (is_up(row), SORTS[sort](row), row["rank"]))


def difference(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Returns the rates of all ranks between two answers of them all, by rank."""
    old = {each["rank"]: each for each in before if each["state"] == SERVING}
    return [rank_rates(old.get(each["rank"]), each) for each in now]
