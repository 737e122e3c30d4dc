"""Reads a kept trace into NumPy tables."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from fanstore._native import dtype_of, lib
from fanstore.arrays import np
from fanstore.trace.sections import TraceDamaged, TraceSection, read_sections
from fanstore.trace.tables import (
    BLOCK,
    COUNTS,
    OPEN,
    PROCESS,
    SAMPLE,
    STALL,
    Table,
    Trace,
    by_time,
    decode,
    summed,
)

_PROCESS = dtype_of("struct fan_traced_process")
_RUN = dtype_of("struct fan_traced_run")
_SAMPLE = dtype_of("struct fan_traced_sample")
_TIME_END_NS = 1 << 61  # a time in the year 2043, later than any in a trace


class _Rank:
    """The sections of one rank that were read so far. lanes: the notes of each lane in runs,
    (number of the program, notes)."""

    def __init__(self) -> None:
        self.about: dict[str, Any] = {}
        self.processes: dict[int, list[Table]] = {}
        self.lanes: dict[int, list[tuple[int, Table]]] = {}
        self.samples: list[Table] = []
        self.foreseen: dict[str, Any] = {}
        self.whole = False

    @property
    def world_size(self) -> int:
        """The number of ranks of the job, as this rank recorded it."""
        size = self.about.get("world_size", 1)
        return size if isinstance(size, int) else 1


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Reads a kept trace. If it is damaged, returns the part before the damage, with `problem` set.
    Raises TraceDamaged, a FanstoreError, if the file is no trace or has another version;
    OSError."""
    ranks: dict[int, _Rank] = {}
    name = os.fsdecode(path)
    problem = ""
    with open(path, "rb") as stream:
        try:
            for section in read_sections(stream, name):
                _take(ranks.setdefault(section.rank, _Rank()), section, name)
        except TraceDamaged as error:
            if not ranks:
                raise
            problem = str(error)
    size = max([1, *(rank.world_size for rank in ranks.values())])
    if not problem and len(ranks) < size:
        problem = f"{name}: holds the traces of {len(ranks)} of {size} ranks"
    if not problem and not all(rank.whole for rank in ranks.values()):
        problem = f"{name}: the job's daemon ended before the trace was whole"
    return _joined(ranks, problem)


def _take(rank: _Rank, section: TraceSection, name: str) -> None:
    if section.kind == lib.FAN_TRACE_JOB:
        rank.about = {"base_realtime_ns": 0, "host": "", **_json(section.content, name)}
    elif section.kind == lib.FAN_TRACE_PROCESSES:
        if len(section.content) % _PROCESS.itemsize:
            raise TraceDamaged(f"{name}: a list of processes is cut off")
        rows = np.frombuffer(section.content, _PROCESS)
        _check_times(name, rows["start_ns"], rows["end_ns"])
        for row in rows:
            rank.processes.setdefault(int(row["process"]), []).append(row)
    elif section.kind == lib.FAN_TRACE_NOTES:
        for lane, process, notes in _runs(section.content, name):
            rank.lanes.setdefault(lane, []).append((process, notes))
    elif section.kind == lib.FAN_TRACE_SAMPLES:
        if len(section.content) % _SAMPLE.itemsize:
            raise TraceDamaged(f"{name}: a list of samples is cut off")
        samples = np.frombuffer(section.content, _SAMPLE)
        _check_times(name, samples["time_ns"])
        rank.samples.append(samples)
    elif section.kind == lib.FAN_TRACE_END:
        rank.whole = True
        rank.foreseen = _foreseen(section.content)


def _check_times(name: str, *times_ns: Table) -> None:
    if any((times >= _TIME_END_NS).any() for times in times_ns):
        raise TraceDamaged(f"{name}: a time in it is beyond all that a job can last")


def _json(content: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    base_ns = value.get("base_realtime_ns", 0) if isinstance(value, dict) else None
    good = isinstance(base_ns, int) and 0 <= base_ns < _TIME_END_NS
    if not good or not isinstance(value.get("host", ""), str):
        raise TraceDamaged(f"{name}: what it says of its job is damaged")
    return dict(value)


def _foreseen(content: bytes) -> dict[str, Any]:
    try:
        value = json.loads(content) if content else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def _runs(content: bytes, name: str) -> Iterator[tuple[int, int, Table]]:
    at = 0
    while at < len(content):
        left = len(content) - at
        head = np.frombuffer(content, _RUN, 1, at)[0] if left >= _RUN.itemsize else None
        count = 0 if head is None else int(head["count"])
        if head is None or count * 8 > left - _RUN.itemsize:
            raise TraceDamaged(f"{name}: notes of a lane are cut off")
        yield (
            int(head["lane"]), int(head["process"]),
            np.frombuffer(content, "<u8", count, at + _RUN.itemsize),
        )  # fmt: skip
        at += _RUN.itemsize + count * 8


def _joined(ranks: dict[int, _Rank], problem: str) -> Trace:
    processes: list[Table] = []
    counts: list[Table] = []
    tables: list[tuple[Table, Table, Table]] = []
    samples: list[Table] = []
    for number, rank in sorted(ranks.items()):
        rows = _rows(rank, len(processes))
        base_ns = int(rank.about.get("base_realtime_ns", 0))
        for process in rows:
            traced = np.array(rank.processes.get(process, []), _PROCESS)
            processes.append(_process(traced, process, number, rank.about, base_ns))
            counts.append(summed(traced["counters"]))
        samples += [_samples(each, number, base_ns) for each in rank.samples]
        for runs in rank.lanes.values():
            owners = [np.full(len(notes), rows[process], np.uint32) for process, notes in runs]
            joined = np.concatenate([notes for _, notes in runs])
            tables.append(decode(joined, np.concatenate(owners), base_ns))
    opens, blocks, stalls = (
        by_time([each[at] for each in tables], dtype)
        for at, dtype in enumerate((OPEN, BLOCK, STALL))
    )
    about = [
        {"rank": number, **rank.about, "foreseen": rank.foreseen}
        for number, rank in sorted(ranks.items())
    ]
    return Trace(
        about,
        np.array(processes, PROCESS),
        np.array(counts, COUNTS),
        opens,
        blocks,
        stalls,
        problem,
        by_time(samples, SAMPLE),
    )


def _rows(rank: _Rank, first: int) -> dict[int, int]:
    """Returns the row of each program of a rank, also of programs that only have notes."""
    named = {process for runs in rank.lanes.values() for process, _ in runs}
    return {number: first + at for at, number in enumerate(sorted({*named, *rank.processes}))}


def _samples(taken: Table, rank: int, base_ns: int) -> Table:
    table = np.empty(len(taken), SAMPLE)
    for name in _SAMPLE.names or ():
        table[name] = taken[name]
    table["rank"] = rank
    table["time_ns"] += np.uint64(base_ns)
    return table


def _process(traced: Table, number: int, rank: int, about: dict[str, Any], base_ns: int) -> Table:
    """Returns the row of a program, made from all its entries."""
    row = np.zeros((), PROCESS)
    row["rank"], row["number"] = rank, number
    row["host"] = str(about.get("host", "")).encode("utf-8", "backslashreplace")[:64]
    if not len(traced):
        return row
    last = {int(each["lane"]): each for each in traced}.values()
    row["comm"] = traced["comm"][-1].tobytes().split(b"\0")[0]
    row["pid"], row["pid_space"] = traced["pid"][-1], traced["pid_space"][-1]
    row["dropped"] = traced["dropped"].sum()
    row["start_ns"] = traced["start_ns"].min().astype(np.int64) + base_ns
    if all(each["end_ns"] for each in last):
        row["end_ns"] = traced["end_ns"].max().astype(np.int64) + base_ns
    return row
