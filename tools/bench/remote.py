"""Compares remote reads with bare MPI requests and replies of the same shape, on two ranks.

Three programs: bare MPI (a request message, a reply of the whole file), FanStore's transport alone,
and an ordinary reader under `fanstore run` whose files all lie on the other rank. Each repetition
runs them in turn, so that whatever else the machine does meets all alike. A ratio is bare MPI's
median time over theirs: 1 is as fast. FanStore fetches large files in pieces of 1 MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from scaling import find_mpiexec

from fanstore.transport.build import find_mpicc

HERE = Path(__file__).resolve().parent
FANSTORE = [sys.executable, "-m", "fanstore"]
TRANSPORT = HERE.parent.parent / "csrc" / "transport"
FLAGS = "-std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Wno-missing-field-initializers".split()
MPI_PROGRAMS = {
    "bare": [HERE / "remote_bare.c"],
    "transport": [HERE / "remote_transport.c", *sorted(TRANSPORT.glob("*.c"))],
}
NAMES = ("bare", "transport", "reader")
KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, 128 * KIB, 2 * MIB, 8 * MIB)
PIECE_BYTES = MIB
TOTAL_BYTES = 256 * MIB
ROUNDS = 5
LIMIT_S = 120
# Rank 0 has the only pack, so that rank 1 has everything to fetch.
SCRIPT = 'if [ "$FANSTORE_RANK" = 1 ]; then exec "$0" "$FANSTORE_MOUNT_PREFIX/$1" "$2" "$3"; fi'


def file_count(file_bytes: int) -> int:
    """How many files of a size are read in a round."""
    return max(8, min(2000, TOTAL_BYTES // file_bytes))


def build(work: Path) -> None:
    """Compiles the programs, and packs files of every size into a dataset of one pack."""
    for name, sources in MPI_PROGRAMS.items():
        command = [*find_mpicc(), *FLAGS, "-o", str(work / name), *map(str, sources)]
        subprocess.run(command, check=True)
    compiler = shlex.split(os.environ.get("CC", "cc"))
    reader = ["-pthread", "-o", work / "reader", HERE / "remote_reader.c"]
    subprocess.run([*compiler, *FLAGS, *reader], check=True)
    source = random.Random(1)
    for file_bytes in SIZES:
        folder = work / "source" / str(file_bytes)
        folder.mkdir(parents=True)
        for number in range(file_count(file_bytes)):
            (folder / f"{number:05}").write_bytes(source.randbytes(file_bytes))
    for rank in (0, 1):
        (work / f"node-{rank}").mkdir()
    pack = [*FANSTORE, "prepare", "--partitions", "1", work / "source", work / "dataset"]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)


def measure_mpi(program: Path, file_bytes: int, outstanding: int) -> list[str]:
    """Runs one of MPI_PROGRAMS: the command's arguments after mpiexec's."""
    pieces = 1 if program.name == "bare" else max(1, file_bytes // PIECE_BYTES)
    figures = (file_bytes // pieces, outstanding * pieces, file_count(file_bytes) * pieces, ROUNDS)
    return [str(program), *map(str, figures)]


def measure_reader(work: Path, file_bytes: int, outstanding: int) -> list[str]:
    """Runs the reader, with a thread for each read that is outstanding."""
    options = [
        "--quiet", "--dataset", work / "dataset", "--keep-staged",
        "--mount", work / "mount-{rank}", "--local-dir", work / "node-{rank}",
    ]  # fmt: skip
    reader = ["sh", "-c", SCRIPT, work / "reader", file_bytes, outstanding, ROUNDS]
    return [*map(str, [*FANSTORE, "run", *options, "--", *reader])]


def measure(work: Path, name: str, file_bytes: int, outstanding: int) -> float:
    """Nanoseconds a file, the median of a few rounds."""
    if name == "reader":
        command = measure_reader(work, file_bytes, outstanding)
    else:
        command = measure_mpi(work / name, file_bytes, outstanding)
    done = subprocess.run(
        [find_mpiexec(), "-n", "2", *command], check=True, stdout=subprocess.PIPE, text=True,
        timeout=LIMIT_S,
    )  # fmt: skip
    pieces = max(1, file_bytes // PIECE_BYTES) if name == "transport" else 1
    return statistics.median(map(float, done.stdout.split())) * pieces


def compare(work: Path, file_bytes: int, outstanding: int, repetitions: int) -> dict[str, float]:
    """One row."""
    times: dict[str, list[float]] = {name: [] for name in NAMES}
    for _ in range(repetitions):
        for name in NAMES:
            times[name].append(measure(work, name, file_bytes, outstanding))
    medians = {name: statistics.median(values) for name, values in times.items()}
    row = {"file_bytes": file_bytes, "outstanding": outstanding}
    row |= {f"{name}_ns": ns for name, ns in medians.items()}
    return row | {f"{name}_ratio": medians["bare"] / medians[name] for name in NAMES[1:]}


def show(row: dict[str, float]) -> None:
    print(
        f"{row['file_bytes']:>9} {row['outstanding']:>7} {row['bare_ns'] / 1e3:>10.1f} "
        f"{row['transport_ns'] / 1e3:>13.1f} {row['transport_ratio']:>6.2f} "
        f"{row['reader_ns'] / 1e3:>10.1f} {row['reader_ratio']:>6.2f}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--outstanding", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--json", type=Path, help="write the rows there as well")
    arguments = parser.parse_args()
    rows = []
    print(f"{'bytes':>9} {'at once':>7} {'bare us':>10} {'transport us':>13} {'ratio':>6} "
          f"{'read us':>10} {'ratio':>6}")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="fanstore-bench-") as folder:
        work = Path(folder)
        build(work)
        for file_bytes in SIZES:
            for outstanding in arguments.outstanding:
                rows.append(compare(work, file_bytes, outstanding, arguments.repetitions))
                show(rows[-1])
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
