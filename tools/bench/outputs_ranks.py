"""The rows of names that another rank keeps: a program of rank 0 works in directories that rank 1
made, on two ranks of this machine. The goal for each call that looks at a name or changes one is
the round trip of bare MPI and 30 us more. For work on a file of this node, the goal adds the time
that it takes in a plain directory on the same disk."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mpi import find_mpiexec, run_ranks
from outputs import ROWS, Row, Side, measure_row, needed
from outside import noted_environment
from peers import FANSTORE, prepare
from remote import build_mpi, mpi_command
from results import DIRECTORY, OURS, Goal, Result
from warm import Settings, say

RANKS = 2
ALLOWED_NS = 30_000
ALLOWED = "round trip + 30 us"
# Calls of a unit that ask the other rank: an open, and the close that publishes.
CALLS = {"create": 2}
FILES = ("create", "read", "unlink")  # operations that also work on a file
ASK_BYTES = 64
END_LIMIT_S = 300
TURNS_MOST = 200
# Rank 1 makes the directories, so that it keeps the names in them. The script writes the
# environment of rank 0, and runs until a file appears.
SCRIPT = f"""
cd "$FANSTORE_MOUNT_PREFIX"
[ "$FANSTORE_RANK" = 1 ] && mkdir worker-1-0 && cd worker-1-0 && mkdir $(seq 0 {TURNS_MOST})
while [ ! -e "$FANSTORE_MOUNT_PREFIX/worker-1-0/{TURNS_MOST}" ]; do sleep 0.1; done
[ "$FANSTORE_RANK" = 0 ] && env -0 >"$0/noted" && echo ready
while [ ! -e "$0/end" ]; do sleep 0.2; done
"""


def key_of(row: Row) -> str:
    """Returns the key of a row, by which --rows names it."""
    return f"outputs-ranks-{row.operation}"


def measured_rows() -> list[Row]:
    """Returns the rows of outputs, except listings, whose entries cost no round trip each."""
    return [row for row in ROWS if row.operation != "readdir"]


KEYS = list(map(key_of, measured_rows()))


@contextmanager
def two_ranks(work: Path) -> Iterator[dict[str, str]]:
    """Yields the environment of a program on rank 0 of a job of two ranks."""
    (work / "source").mkdir()
    (work / "source" / "file").write_bytes(b"content")
    prepare(work / "source", work / "data")
    mpiexec = find_mpiexec()
    assert mpiexec is not None
    job = subprocess.Popen(
        [mpiexec, "-n", str(RANKS), *FANSTORE, "run", "--quiet", "--dataset", work / "data",
         "--mount", work / "mount-{rank}", "--local-dir", work / "node-{rank}",
         "--output-dir", work / "out", "--", "sh", "-c", SCRIPT, work],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert job.stdout is not None
        if job.stdout.readline() != b"ready\n":
            raise SystemExit("bench: no job of two ranks")
        yield noted_environment(work / "noted")
    finally:
        (work / "end").touch()
        job.communicate(timeout=END_LIMIT_S)


def round_trip_ns(work: Path) -> float:
    """Returns the time of a small message and its reply over bare MPI, as the median of a few
    rounds."""
    build_mpi(work, "bare")
    said = run_ranks(2, mpi_command(work / "bare", ASK_BYTES, 1), {})
    return statistics.median(map(float, said.split()))


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Measures the rows whose keys are in `wanted`, and yields the result of each."""
    say("outputs of two ranks")
    round_trip = round_trip_ns(work)
    with two_ranks(work) as environment, ExitStack() as stack:
        plain = {name: text for name, text in environment.items() if name != "LD_PRELOAD"}
        sides = {
            DIRECTORY: Side(stack, str(work / "plain"), plain, settings.quick, 1),
            OURS: Side(stack, environment["FANSTORE_MOUNT_PREFIX"], environment, settings.quick, 1),
        }
        rows = [row for row in measured_rows() if key_of(row) in wanted]
        for row in measured_rows():
            if needed(row, rows):
                taken = measure_row(row, sides, settings)
                if row in rows:
                    yield result(row, taken, round_trip)


def result(row: Row, taken: Mapping[str, list[float]], round_trip: float) -> Result:
    """Returns a row of the table. round_trip: the time of a small message and its reply, in
    nanoseconds."""
    allowed = CALLS.get(row.operation, 1) * (round_trip + ALLOWED_NS)
    if row.operation in FILES:
        allowed += statistics.median(taken[DIRECTORY])
    note = f"a round trip of bare MPI: {round_trip / 1e3:.0f} us"
    return Result.of(
        "outputs-ranks", key_of(row), f"{row.title}, kept elsewhere", row.unit,
        {ALLOWED: [allowed], **taken}, [Goal(ALLOWED, 1.0)], note,
    )  # fmt: skip
