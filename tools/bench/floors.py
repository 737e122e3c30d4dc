"""The floor of a row: the steps that no reader can avoid, as this machine does them alone. A goal
on it holds on any machine.

c/floors.c measures the steps once before the rows and once after them; the lesser time counts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from readers import compile_c
from results import OURS, Floor, Report, Result
from rows import KIB, KINDS
from rows import SIZES as ROW_SIZES

SIZES = {kind.name: kind.file_bytes for kind in KINDS if kind.name in ROW_SIZES}
MISS, DUP_CLOSE, MPI = "miss", "dup_close", "bare MPI"
WORDS = {MISS: "a miss", DUP_CLOSE: "dup + close", MPI: MPI, "wake": "a wake-up"}
# The number of times that a row with a goal may take each step, and the nanoseconds beside them.
GOALS: dict[str, tuple[dict[str, float], float]] = {
    "many-stat": ({MISS: 1.6}, 60),
    "many-open": ({MISS: 2.2, DUP_CLOSE: 1}, 200),
    "most-stat-10m": ({MISS: 2.2}, 60),
    "most-open-10m": ({MISS: 2.8, DUP_CLOSE: 1}, 200),
    "remote-4k-1": ({MPI: 4}, 8000),
    "remote-128k-1": ({MPI: 1.5}, 0),
    "remote-2m-1": ({MPI: 1.5}, 0),
}


def steps_of(key: str) -> tuple[str, ...]:
    """Returns the steps of a row; () if it has no floor."""
    if key == "many-read":
        return (MISS, DUP_CLOSE, f"copy-{SIZES['4k']}")
    read = re.fullmatch(r"(?:read|read16|child|fread)-(\w+)", key)
    if read is not None:
        return (DUP_CLOSE, f"copy-{SIZES[read[1]]}")
    if re.fullmatch(r"remote-\w+-1", key):
        return (MPI,)
    if re.fullmatch(r"(many-open|most-open-\w+)", key):
        return (MISS, DUP_CLOSE)
    if re.fullmatch(r"many-(stat|missing)|most-(stat|missing)-\w+", key):
        return (MISS,)
    return {"open": (DUP_CLOSE,), "pread": (f"copy-{SIZES['4k']}",)}.get(key, ())


def measure(work: Path) -> dict[str, float]:
    """Returns the nanoseconds of each step that the machine does alone."""
    program = compile_c(work, ("floors.c", "paths.c"))
    command = [program, *map(str, SIZES.values())]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {name: float(ns) for name, ns in map(str.split, said.splitlines())}


def least(*measured: dict[str, float]) -> dict[str, float]:
    """Returns the least time of each step."""
    return {name: min(each[name] for each in measured) for name in measured[0]}


def floor_of(result: Result, steps_ns: dict[str, float]) -> Floor | None:
    """Returns the floor of a row; None if it has none."""
    known = {**result.times_ns, **steps_ns}
    steps = steps_of(result.key) if result.processes == result.threads == 1 else ()
    if not steps or OURS not in result.times_ns or not known.keys() >= set(steps):
        return None
    times, more_ns = GOALS.get(result.key, ({}, 0.0))
    most_ns = sum(count * known[step] for step, count in times.items()) + more_ns
    words = " + ".join(WORDS.get(step, "a copy") for step in steps)
    return Floor(words, sum(known[step] for step in steps), most_ns or None)


def mark(report: Report, steps_ns: dict[str, float]) -> None:
    """Gives the rows of a report their floors, and says in its head what the steps take."""
    for result in report.results:
        result.floor = floor_of(result, steps_ns)
    report.machine["floors"] = "; ".join(
        f"{WORDS.get(name) or f'a copy of {int(name[5:]) // KIB} KiB'} {ns:,.0f} ns"
        for name, ns in steps_ns.items()
    )
