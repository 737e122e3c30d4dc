"""The cost of a job for programs that do not use its mount: short processes, tar, gcc, python.

Each command runs in turn plainly, with the library loaded but no job, and under a job: the first
two differ by the loading of a library, the last two by its start and the calls outside the prefix.
The goals of long commands, which disturbances of the machine affect, are for their processor time;
the note has their wall-clock time, for which users wait."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter_ns

from peers import FANSTORE, prepare
from results import OURS, Goal, Result
from warm import Settings, in_turns, say

PLAIN, LOADED, BUDGET = "plain", "loaded", "budget"
START_BUDGET_NS = 1e6  # for a process's start under a job, over a plain start
PROCESSES_RATIO = 1 / 1.5
CALLS_RATIO = 1 / 1.01
PROCESSES = 1000
ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ("csrc", "fanstore", "docs", "tests")
LOOP = "n=$1; while [ $n -gt 0 ]; do /bin/true; n=$((n-1)); done"


@dataclass(frozen=True)
class Row:
    """A command. runs: how often each side runs in a repetition; goals: for its medians."""

    title: str
    command: Callable[[Path], list[str]]
    runs: int
    goals: tuple[Goal, ...]
    unit: str = "run"
    units: int = 1
    processor: bool = True


CALLS = (Goal(LOADED, CALLS_RATIO),)
ROWS = {
    "outside-processes": Row(
        "1,000 short processes (sh)", lambda work: ["/bin/sh", "-c", LOOP, "sh", str(PROCESSES)],
        1, (Goal(PLAIN, PROCESSES_RATIO),), "process", PROCESSES, processor=False,
    ),
    "outside-start": Row(
        "start of a process", lambda work: ["/bin/true"], 100, (), processor=False
    ),
    "outside-tar": Row(
        "tar of a source tree, processor time",
        lambda work: ["tar", "-C", str(ROOT), "-cf", f"{work}/tar", *SOURCES],
        15, CALLS,
    ),
    "outside-gcc": Row(
        "gcc -c, processor time",
        lambda work: ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-c",
                      str(ROOT / "csrc/client/files/filetable.c"), "-o", f"{work}/object"],
        3, CALLS,
    ),
    "outside-python": Row(
        "python -c pass, processor time", lambda work: [sys.executable, "-c", "pass"], 30, CALLS
    ),
}  # fmt: skip


KEYS = list(ROWS)


def noted_environment(path: Path) -> dict[str, str]:
    """Returns the environment that `env -0` wrote to a file."""
    entries = (os.fsdecode(entry) for entry in path.read_bytes().split(b"\0") if entry)
    return dict(entry.split("=", 1) for entry in entries)


@contextmanager
def job_environment(work: Path, end_limit_s: float = 60) -> Iterator[dict[str, str]]:
    """Yields the environment of a command under a job. The job lasts as long as the block, and must
    then end within `end_limit_s`."""
    source, noted = work / "source", work / "environment"
    source.mkdir()
    (source / "file").write_bytes(b"content")
    dataset, local = work / "dataset", work / "local"
    prepare(source, dataset)
    command = ["sh", "-c", "env -0 >$0 && echo ready && read line", str(noted)]
    job = subprocess.Popen(
        [*FANSTORE, "run", "--quiet", "--dataset", dataset, "--local-dir", local,
         "--mount", work / "mount", "--output-dir", work / "out", "--", *command],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert job.stdout is not None
        if job.stdout.readline() != b"ready\n":
            raise SystemExit("bench: no job")
        yield noted_environment(noted)
    finally:
        job.communicate(b"\n", timeout=end_limit_s)


def sides_of(job: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Returns the environments that are compared."""
    loaded = {name: text for name, text in job.items() if not name.startswith("FANSTORE_")}
    plain = {name: text for name, text in loaded.items() if name != "LD_PRELOAD"}
    return {PLAIN: plain, LOADED: loaded, OURS: dict(job)}


def run_once(command: list[str], environment: Mapping[str, str], null: int) -> tuple[float, float]:
    """Returns the nanoseconds from a command's start to its end, and its processor time."""
    start = perf_counter_ns()
    pid = os.posix_spawnp(
        command[0], command, environment, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)]
    )
    _, status, used = os.wait4(pid, 0)
    elapsed_ns = perf_counter_ns() - start
    if status != 0:
        raise SystemExit(f"bench: {command[0]} ended with {os.waitstatus_to_exitcode(status)}")
    return elapsed_ns, (used.ru_utime + used.ru_stime) * 1e9


def measure_row(
    key: str, work: Path, sides: Mapping[str, dict[str, str]], repetitions: int
) -> Result:
    """Measures a row: the sides take turns, run by run. The first turn only warms up."""
    row = ROWS[key]
    command = row.command(work)
    with open(os.devnull, "wb") as null:
        runs = {
            name: partial(run_once, command, environment, null.fileno())
            for name, environment in sides.items()
        }
        taken = in_turns(runs, repetitions * row.runs, 1)
    wall, processor = (
        {name: [each[at] / row.units for each in all_] for name, all_ in taken.items()}
        for at in (0, 1)
    )
    times = processor if row.processor else wall
    result = Result.of("outside", key, row.title, row.unit, times, row.goals)
    result.note = f"{1 / result.ratio(PLAIN):.3f} times plain"
    result.note += f", {1 / result.ratio(LOADED) - 1:+.1%} over the library without a job"
    if row.processor:
        waited = statistics.median(wall[OURS]) / statistics.median(wall[PLAIN])
        result.note += f"; wall clock {waited:.3f} times plain"
    return own_cost(result) if key == "outside-start" else result


def own_cost(result: Result) -> Result:
    """Returns a result whose times are those above a plain start of a process."""
    times = result.times_ns
    more = {OURS: max(times[OURS] - times[PLAIN], 1.0), BUDGET: START_BUDGET_NS}
    note = f"a plain start: {times[PLAIN] / 1e3:.0f} us; "
    note += f"loading the library: {(times[LOADED] - times[PLAIN]) / 1e3:.0f} us of it"
    return Result(
        "outside", result.key, "start of a process, over a plain one", "process", more,
        goals=[Goal(BUDGET, 1.0)], note=note,
    )  # fmt: skip


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Yields the rows of `wanted`, and the reasons why others are missing."""
    with job_environment(work) as environment:
        sides = sides_of(environment)
        for key in wanted:
            program = ROWS[key].command(work)[0]
            if shutil.which(program) is None:
                yield f"{key}: no {program}"
                continue
            say(ROWS[key].title)
            yield measure_row(key, work, sides, settings.repetitions)
