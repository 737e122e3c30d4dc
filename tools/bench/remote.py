"""The rows of remote reads, compared with bare MPI requests and replies of the same sizes, on two
ranks.

Three programs: bare MPI (a request message, a reply of the whole file), FanStore's transport alone,
and an ordinary reader under `fanstore run` whose files all lie on the other rank. Each repetition
runs them in turn. FanStore fetches large files in blocks of 1 MiB. The rows of neighbours compare
reads of files that lie on the other rank, of the same node, with reads of the rank's own."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path

from data import make_files
from mpi import run_job, run_ranks
from peers import prepare
from readers import HERE, WHOLE, compile_c
from results import OURS, Goal, Result
from rows import KIB, MIB, Kind
from warm import Settings, in_turns, say

from fanstore.transport.build import find_mpicc, quotable

TRANSPORT = HERE.parent.parent / "csrc" / "transport"
FLAGS = "-std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Wno-missing-field-initializers".split()
MPI_PROGRAMS = {
    "bare": [HERE / "c" / "remote_bare.c"],
    "transport": [HERE / "c" / "remote_transport.c", *sorted(TRANSPORT.glob("*.c"))],
}
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


KEYS = [key_of(size, outstanding) for size in SIZES for outstanding in OUTSTANDING]
KEYS += map(neighbour_key, SIZES)


def build_mpi(work: Path, name: str) -> None:
    """Compiles the program of MPI_PROGRAMS with this name into `work`."""
    mpicc = quotable(find_mpicc(own=True), work)
    sources = map(str, MPI_PROGRAMS[name])
    subprocess.run([*mpicc, *FLAGS, "-o", str(work / name), *sources], check=True)


def file_count(file_bytes: int) -> int:
    """Returns how many files of a size are read in a round."""
    return max(8, min(2000, TOTAL_BYTES // file_bytes))


def build(work: Path) -> None:
    """Compiles the programs, and packs files of every size into a dataset of one pack."""
    for name in MPI_PROGRAMS:
        build_mpi(work, name)
    compile_c(work, ["remote_reader.c", *WHOLE])
    make_files(work / "made", [Kind(str(n), n, 1, file_count(n)) for n in SIZES.values()])
    (work / "source").mkdir()
    for size in SIZES.values():
        (work / "made" / str(size) / "folder-00").rename(work / "source" / str(size))
    prepare(work / "source", work / "dataset", "--partitions", "1")


def mpi_command(program: Path, file_bytes: int, outstanding: int) -> list[str]:
    """Returns the command of one of MPI_PROGRAMS: bytes of a piece, pieces at once, pieces,
    rounds."""
    pieces = 1 if program.name == "bare" else max(1, file_bytes // PIECE_BYTES)
    figures = (file_bytes // pieces, outstanding * pieces, file_count(file_bytes) * pieces, ROUNDS)
    return [str(program), *map(str, figures)]


def read_ns(
    work: Path, file_bytes: int, outstanding: int, rank: int = 1, **variables: str
) -> float:
    """Runs the reader on a rank, with a thread for each outstanding read. Returns the median
    nanoseconds per file of a few rounds, each of which fetches every file again."""
    reader = ["sh", "-c", SCRIPT, work / "remote_reader", file_bytes, outstanding, ROUNDS, rank]
    options = "--keep-staged --cache-policy close --replicas 1 --order off".split()
    printed = run_job(work, 2, work / "dataset", reader, *options, **variables)
    return statistics.median(map(float, printed.split()))


def mpi_ns(work: Path, name: str, file_bytes: int, outstanding: int) -> float:
    """Runs one of MPI_PROGRAMS. Returns the median nanoseconds per file of a few rounds."""
    printed = run_ranks(2, mpi_command(work / name, file_bytes, outstanding), {})
    pieces = max(1, file_bytes // PIECE_BYTES) if name == "transport" else 1
    return statistics.median(map(float, printed.split())) * pieces


def measure_row(work: Path, size: str, outstanding: int, repetitions: int) -> Result:
    """Measures and returns one row."""
    title = f"{size} remote, {outstanding} at once"
    say(title)
    sides = {
        "bare MPI": partial(mpi_ns, work, "bare", SIZES[size], outstanding),
        OURS: partial(read_ns, work, SIZES[size], outstanding),
        "transport alone": partial(mpi_ns, work, "transport", SIZES[size], outstanding),
    }
    return Result.of(
        "remote", key_of(size, outstanding), title, "file", in_turns(sides, repetitions),
        bytes_per_unit=SIZES[size],
    )  # fmt: skip


def measure_neighbour(work: Path, size: str, repetitions: int) -> Result:
    """Measures and returns a row of reads from a rank of the same node."""
    title = f"{size} of a rank of the same node"
    say(title)
    sides = {
        name: partial(read_ns, work, SIZES[size], 1, rank, FANSTORE_NEIGHBOURS="on")
        for name, rank in ((LOCAL, 0), (OURS, 1))
    }
    return Result.of(
        "remote", neighbour_key(size), title, "file", in_turns(sides, repetitions),
        [Goal(LOCAL, LOCAL_GOAL)], bytes_per_unit=SIZES[size],
    )  # fmt: skip


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Measures the rows whose keys are in `wanted`, and yields the result of each."""
    build(work)
    for size, outstanding in product(SIZES, OUTSTANDING):
        if key_of(size, outstanding) in wanted:
            yield measure_row(work, size, outstanding, min(settings.repetitions, REPETITIONS))
    for size in SIZES:
        if neighbour_key(size) in wanted:
            yield measure_neighbour(work, size, min(settings.repetitions, NEIGHBOUR_REPETITIONS))
