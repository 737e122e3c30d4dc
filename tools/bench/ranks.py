"""How reading scales with the ranks of a job: every rank reads all files, in an order of its own.

On 1, 2 and 4 ranks of this machine, each with a local directory of its own: with each pack on one
rank, so that (N-1)/N of the reads are remote, and with every pack on every rank. A row's times are
for one file at the rates of all ranks together. "one rank times N" is what a perfect scaling would
give; on a machine with fewer cores than ranks it cannot be reached, and the second figure says how
far the cores alone allow it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from data import make_files
from mpi import find_mpiexec, run_ranks
from peers import FANSTORE
from readers import compile_reader, parse
from results import OURS, Result
from rows import KIB, MIB, TITLES, Kind
from warm import Settings, say

RANKS = (1, 2, 4)
ROUNDS = 7
PARTITIONS = 16
KINDS = (
    Kind("4k", 4 * KIB, 8, 256), Kind("128k", 128 * KIB, 8, 64), Kind("512k", 512 * KIB, 8, 16),
    Kind("2m", 2 * MIB, 8, 6),
)  # fmt: skip
PERFECT, LOCAL = "one rank times N", "FanStore, all local"
# Each rank asks its reader for ROUNDS rounds; the first warms up.
SCRIPT = (
    'for i in $(seq "$ROUNDS"); do echo "read $KIND 1 0"; done | '
    '"$@" "$FANSTORE_MOUNT_PREFIX" "$FANSTORE_RANK" >"$OUT.$FANSTORE_RANK"'
)


def key_of(kind: str, ranks: int) -> str:
    return f"ranks-{kind}-{ranks}"


def row_keys() -> list[str]:
    """The rows."""
    return [key_of(kind.name, ranks) for kind in KINDS for ranks in RANKS]


def files_per_ns(work: Path, reader: Path, kind: str, ranks: int, replicas: str) -> float:
    """Runs one job; what its ranks read together."""
    for rank in range(ranks):
        (work / f"node-{rank}").mkdir(exist_ok=True)
    out = work / "out"
    command = [
        *FANSTORE, "run", "--quiet", "--dataset", work / "dataset", "--replicas", replicas,
        "--mount", work / "mount-{rank}", "--local-dir", work / "node-{rank}",
        "--output-dir", work / "output", "--", "sh", "-c", SCRIPT, "reader", reader,
    ]  # fmt: skip
    run_ranks(ranks, command, {"ROUNDS": str(ROUNDS), "KIND": kind, "OUT": os.fspath(out)})
    return sum(_rate(Path(f"{out}.{rank}")) for rank in range(ranks))


def _rate(answers: Path) -> float:
    """Files in a nanosecond of one rank, the median of its rounds."""
    rounds = [parse(line) for line in answers.read_text().splitlines()]
    return statistics.median(answer.per_ns for answer in rounds[1:])


def measure_row(work: Path, reader: Path, kind: Kind, ranks: int, alone: float) -> Result:
    """One row; `alone` is the rate of one rank."""
    title = f"{TITLES[kind.name]}, {ranks} ranks"
    say(title)
    spread = files_per_ns(work, reader, kind.name, ranks, "1")
    local = files_per_ns(work, reader, kind.name, ranks, "all")
    return Result(
        "ranks", key_of(kind.name, ranks), title, "file",
        {PERFECT: 1 / (alone * ranks), OURS: 1 / spread, LOCAL: 1 / local},
        bytes_per_unit=kind.file_bytes, processes=ranks,
        note=f"{spread / (alone * ranks):.2f} and {local / (alone * ranks):.2f} of perfect scaling",
    )  # fmt: skip


def measure(
    work: Path, wanted: Sequence[str], settings: Settings
) -> tuple[list[Result], list[str]]:
    """The rows of `wanted`, and why some were left out."""
    if find_mpiexec() is None:
        return [], ["ranks-*: mpiexec is not there: pip install 'fanstore-fs[mpi]'"]
    make_files(work / "source", KINDS)
    reader = compile_reader(work)
    subprocess.run(
        [*FANSTORE, "prepare", "--partitions", str(PARTITIONS), work / "source", work / "dataset"],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    results = []
    for kind in KINDS:
        rows = [ranks for ranks in RANKS if key_of(kind.name, ranks) in wanted]
        if rows:
            alone = files_per_ns(work, reader, kind.name, 1, "1")
            results += [measure_row(work, reader, kind, ranks, alone) for ranks in rows]
    return results, []
