"""The rows of remote reads, compared with bare MPI requests and replies of the same sizes, on two
ranks.

Three programs: bare MPI (a request message, a reply of the whole file), FanStore's transport alone,
and an ordinary reader under `fanstore run` whose files all lie on the other rank. Each repetition
runs them in turn. FanStore fetches large files in blocks of 1 MiB. The rows of neighbours compare
reads of files that lie on the other rank, of the same node, with reads of the rank's own."""

from __future__ import annotations

import os
import shlex
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from data import make_files
from mpi import find_mpiexec, run_ranks
from peers import FANSTORE
from readers import HERE
from results import OURS, Goal, Result
from rows import KIB, MIB, Kind
from warm import Settings, say

from fanstore.transport.build import find_mpicc, quotable

TRANSPORT = HERE.parent.parent / "csrc" / "transport"
FLAGS = "-std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Wno-missing-field-initializers".split()
MPI_PROGRAMS = {
    "bare": [HERE / "c" / "remote_bare.c"],
    "transport": [HERE / "c" / "remote_transport.c", *sorted(TRANSPORT.glob("*.c"))],
}
NAMES = {"bare": "bare MPI", "reader": OURS, "transport": "transport alone"}
SIZES = {"4k": 4 * KIB, "128k": 128 * KIB, "2m": 2 * MIB, "8m": 8 * MIB}
OUTSTANDING = (1, 8)
PIECE_BYTES = MIB
TOTAL_BYTES = 256 * MIB
ROUNDS, REPETITIONS, NEIGHBOUR_REPETITIONS = 5, 1, 3
LOCAL, LOCAL_GOAL = "local", 1 / 3
# Rank 0 has the only pack, so that rank 1 must fetch everything. $4: the rank that reads.
SCRIPT = 'if [ "$FANSTORE_RANK" = "$4" ]; then exec "$0" "$FANSTORE_MOUNT_PREFIX/$1" "$2" "$3"; fi'


def key_of(size: str, outstanding: int) -> str:
    return f"remote-{size}-{outstanding}"


def neighbour_key(size: str) -> str:
    return f"neighbour-{size}"


def row_keys() -> list[str]:
    """Returns the keys of the rows."""
    asked = [key_of(size, outstanding) for size in SIZES for outstanding in OUTSTANDING]
    return asked + [neighbour_key(size) for size in SIZES]


def file_count(file_bytes: int) -> int:
    """Returns how many files of a size are read in a round."""
    return max(8, min(2000, TOTAL_BYTES // file_bytes))


def build(work: Path) -> None:
    """Compiles the programs, and packs files of every size into a dataset of one pack."""
    mpicc = quotable(find_mpicc(own=True), work)
    for name, sources in MPI_PROGRAMS.items():
        command = [*mpicc, *FLAGS, "-o", str(work / name), *map(str, sources)]
        subprocess.run(command, check=True)
    compiler = shlex.split(os.environ.get("CC", "cc"))
    reader = ["-pthread", "-o", work / "reader", HERE / "c" / "remote_reader.c"]
    subprocess.run([*compiler, *FLAGS, *reader], check=True)
    make_files(work / "made", [Kind(str(n), n, 1, file_count(n)) for n in SIZES.values()])
    (work / "source").mkdir()
    for size in SIZES.values():
        (work / "made" / str(size) / "folder-00").rename(work / "source" / str(size))
    for rank in (0, 1):
        (work / f"node-{rank}").mkdir()
    pack = [*FANSTORE, "prepare", "--partitions", "1", work / "source", work / "dataset"]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)


def mpi_command(program: Path, file_bytes: int, outstanding: int) -> list[str]:
    """Returns the command of one of MPI_PROGRAMS: bytes of a piece, pieces at once, pieces,
    rounds."""
    pieces = 1 if program.name == "bare" else max(1, file_bytes // PIECE_BYTES)
    figures = (file_bytes // pieces, outstanding * pieces, file_count(file_bytes) * pieces, ROUNDS)
    return [str(program), *map(str, figures)]


def reader_command(work: Path, file_bytes: int, outstanding: int, rank: int = 1) -> list[str]:
    """Returns the command of the reader on a rank, with a thread for each outstanding read."""
    options = [
        "--quiet", "--dataset", work / "dataset", "--keep-staged", "--output-dir", work / "output",
        "--mount", work / "mount-{rank}", "--local-dir", work / "node-{rank}",
        # Each round fetches every file again, when it is read.
        "--cache-policy", "close", "--replicas", "1", "--order", "off",
    ]  # fmt: skip
    reader = ["sh", "-c", SCRIPT, work / "reader", file_bytes, outstanding, ROUNDS, rank]
    return [*map(str, [*FANSTORE, "run", *options, "--", *reader])]


def ns_per_file(work: Path, name: str, file_bytes: int, outstanding: int) -> float:
    """Runs one of the three programs. Returns the median of a few rounds."""
    if name == "reader":
        command = reader_command(work, file_bytes, outstanding)
    else:
        command = mpi_command(work / name, file_bytes, outstanding)
    printed = run_ranks(2, command, {})
    pieces = max(1, file_bytes // PIECE_BYTES) if name == "transport" else 1
    return statistics.median(map(float, printed.split())) * pieces


def measure_row(work: Path, size: str, outstanding: int, repetitions: int) -> Result:
    """Measures and returns one row."""
    title = f"{size} remote, {outstanding} at once"
    say(title)
    times: dict[str, list[float]] = {name: [] for name in NAMES}
    for _ in range(repetitions):
        for name in NAMES:
            times[name].append(ns_per_file(work, name, SIZES[size], outstanding))
    return Result(
        "remote", key_of(size, outstanding), title, "file",
        {NAMES[name]: statistics.median(values) for name, values in times.items()},
        {NAMES[name]: (min(values), max(values)) for name, values in times.items()},
        bytes_per_unit=SIZES[size],
    )  # fmt: skip


def measure_neighbour(work: Path, size: str, repetitions: int) -> Result:
    """Measures and returns a row of reads from a rank of the same node."""
    title = f"{size} of a rank of the same node"
    say(title)
    times: dict[str, list[float]] = {LOCAL: [], OURS: []}
    for _ in range(repetitions):
        for name, rank in ((LOCAL, 0), (OURS, 1)):
            command = reader_command(work, SIZES[size], 1, rank)
            printed = run_ranks(2, command, {"FANSTORE_NEIGHBOURS": "on"})
            times[name].append(statistics.median(map(float, printed.split())))
    return Result(
        "remote", neighbour_key(size), title, "file",
        {name: statistics.median(values) for name, values in times.items()},
        {name: (min(values), max(values)) for name, values in times.items()},
        [Goal(LOCAL, LOCAL_GOAL)], bytes_per_unit=SIZES[size],
    )  # fmt: skip


def measure(
    work: Path, wanted: Sequence[str], settings: Settings
) -> tuple[list[Result], list[str]]:
    """Returns the rows of `wanted`, and the reasons why others are missing."""
    if find_mpiexec() is None:
        return [], ["remote-*: mpiexec is not there: pip install 'fanstore-fs[mpi]'"]
    build(work)
    asked = [
        measure_row(work, size, outstanding, min(settings.repetitions, REPETITIONS))
        for size in SIZES
        for outstanding in OUTSTANDING
        if key_of(size, outstanding) in wanted
    ]
    return asked + [
        measure_neighbour(work, size, min(settings.repetitions, NEIGHBOUR_REPETITIONS))
        for size in SIZES
        if neighbour_key(size) in wanted
    ], []
