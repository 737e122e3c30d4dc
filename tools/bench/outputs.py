"""Measures what outputs cost, compared with the local file system: names made, looked at and
changed under a mount and in a plain directory by the same program, in turn; one process, and four
at once.

The output directory is on the same disk, and stage-out runs meanwhile, as in a job. All files are
made before any is removed: for some seconds after a removal, ext4 looks at each freed inode near by
before it takes another, so a new file costs 20 times as much."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path

from outside import PLAIN, job_environment, sides_of
from results import DIRECTORY, OURS, Goal, Result
from warm import Settings, in_turns, say

PROCESSES = (1, 4)
FILES, QUICK_FILES = 1000, 200
LISTED, QUICK_LISTED = 10_000, 1000
STAGE_OUT_LIMIT_S = 600

# For a request "OPERATION ROUND" answers with the units done, and when they began and ended.
WORKER = """
import os, sys, time
top, count, listed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
block = os.urandom(4096)
os.makedirs(top, exist_ok=True)  # rank 1 may have made it (outputs_ranks.py)
os.mkdir(f"{top}/many")
made = []

def create(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, block)
    os.close(fd)

def missing(path):
    try:
        os.stat(path + "-none")
    except FileNotFoundError:
        return
    raise AssertionError(path)

def read(path):
    fd = os.open(path, os.O_RDONLY)
    assert len(os.read(fd, 8192)) == 4096
    os.close(fd)

OPERATIONS = {
    "create": create, "stat": os.stat, "missing": missing,
    "access": lambda path: os.access(path, os.R_OK), "read": read,
    "rename": lambda path: os.rename(path, path + "r"),
    "unlink": lambda path: os.unlink(path + "r"),
    "mkdir": lambda path: os.mkdir(path + "d"), "rmdir": lambda path: os.rmdir(path + "d"),
}
for line in sys.stdin:
    name, turn = line.split()
    directory = f"{top}/{turn}"
    if name == "readdir":
        while len(made) < listed:
            made.append(f"{top}/many/entry-{len(made)}")
            os.mkdir(made[-1])
        start = time.perf_counter_ns()
        units = len(os.listdir(f"{top}/many"))
        assert units == listed
    else:
        call, units = OPERATIONS[name], count
        os.makedirs(directory, exist_ok=True)
        start = time.perf_counter_ns()
        for number in range(count):
            call(f"{directory}/file-{number}")
    print(units, start, time.perf_counter_ns(), flush=True)
"""


@dataclass(frozen=True)
class Row:
    """An operation. goal: how many times as fast as the directory it must be."""

    operation: str
    title: str
    goal: float
    unit: str = "call"


# In the order in which they run: later rows use files that earlier ones made.
ROWS = (
    Row("create", "output: create, write 4 KiB, close", 0.8, "file"),
    Row("stat", "output: stat", 0.7),
    Row("missing", "output: stat, missing name", 0.7),
    Row("access", "output: access", 0.7),
    Row("read", "output: open, read 4 KiB, close", 0.9, "file"),
    Row("rename", "output: rename", 0.7),
    Row("unlink", "output: unlink", 0.7),
    Row("mkdir", "output: mkdir", 0.7),
    Row("rmdir", "output: rmdir", 0.7),
    Row("readdir", "output: readdir of many", 0.9, "entry"),
)


def key_of(row: Row, processes: int) -> str:
    """Returns the name of a row for --rows."""
    return f"outputs-{row.operation}" + (f"-{processes}p" if processes > 1 else "")


KEYS = [key_of(row, n) for n in PROCESSES for row in ROWS]


class Side:
    """The workers in one place."""

    def __init__(
        self, stack: ExitStack, top: str, environment: Mapping[str, str], quick: bool, count: int
    ) -> None:
        """Starts the workers, each in a directory of its own: `top`/worker-COUNT-NUMBER."""
        sizes = (QUICK_FILES, QUICK_LISTED) if quick else (FILES, LISTED)
        self._workers = []
        for number in range(count):
            argv = [sys.executable, "-c", WORKER, f"{top}/worker-{count}-{number}"]
            worker = subprocess.Popen(
                [*argv, *map(str, sizes)], env=environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            stack.callback(worker.communicate, timeout=60)
            self._workers.append(worker)

    def ask(self, operation: str, turns: Iterator[int]) -> float:
        """Runs all workers at once, in the directory of the next turn. Returns nanoseconds per
        unit, from the first start to the last end."""
        turn = next(turns)
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.write(f"{operation} {turn}\n")
            worker.stdin.flush()
        answers = []
        for worker in self._workers:
            assert worker.stdout is not None
            line = worker.stdout.readline()
            if not line:
                raise SystemExit(f"bench: a worker of outputs ended in {operation}")
            answers.append([int(word) for word in line.split()])
        units = sum(answer[0] for answer in answers)
        took = max(answer[2] for answer in answers) - min(answer[1] for answer in answers)
        return took / max(units, 1)


def result(row: Row, processes: int, times: Mapping[str, list[float]]) -> Result:
    """Returns a row of the table."""
    found = Result.of(
        "outputs", key_of(row, processes), row.title, row.unit, times,
        [Goal(DIRECTORY, row.goal)], processes=processes,
    )  # fmt: skip
    return replace(found, note=f"{1 / found.ratio(DIRECTORY):.2f} times the directory's time")


def measure_calls(
    places: Mapping[str, tuple[str, Mapping[str, str]]], wanted: Mapping[int, Sequence[Row]],
    settings: Settings,
) -> list[Result]:  # fmt: skip
    """Returns the wanted rows for each number of processes. The first turn only warms up."""
    results = []
    with ExitStack() as stack:
        sides = {
            processes: {
                name: Side(stack, top, environment, settings.quick, processes)
                for name, (top, environment) in places.items()
            }
            for processes in wanted
        }
        for row in ROWS:
            for processes, rows in wanted.items():
                if needed(row, rows):
                    times = measure_row(row, sides[processes], settings)
                    results += [result(row, processes, times)] if row in rows else []
    return sorted(results, key=lambda each: each.processes)


def measure_row(row: Row, sides: Mapping[str, Side], settings: Settings) -> dict[str, list[float]]:
    """Returns the nanoseconds per unit of each turn except the first, by place."""
    asked = {name: partial(side.ask, row.operation, count()) for name, side in sides.items()}
    return in_turns(asked, settings.repetitions, 1)


def needed(row: Row, rows: Sequence[Row]) -> bool:
    """Returns whether a row is wanted, or makes files that a wanted row uses."""
    makers = {"create": "stat access read rename unlink", "rename": "unlink", "mkdir": "rmdir"}
    users = makers.get(row.operation, "").split()
    return row in rows or any(other.operation in users for other in rows)


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Measures the rows whose keys are in `wanted`, and yields the result of each."""
    with job_environment(work, STAGE_OUT_LIMIT_S) as environment:
        places = {
            DIRECTORY: (str(work / "plain"), sides_of(environment)[PLAIN]),
            OURS: (environment["FANSTORE_MOUNT_PREFIX"] + "/outputs", environment),
        }
        calls = {n: [row for row in ROWS if key_of(row, n) in wanted] for n in PROCESSES}
        say("outputs")
        yield from measure_calls(places, {n: rows for n, rows in calls.items() if rows}, settings)
