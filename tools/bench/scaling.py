"""How reading scales with the ranks of a job: every rank reads all files, in an order of its own.

For 1, 2 and 4 ranks on this machine, each with a local directory of its own: files/s of all ranks
together, with each pack on one rank (so that (N-1)/N of the reads are remote) and with every pack
on every rank (none is). The first over N times what one rank does is the weak-scaling efficiency of
the paper; on a machine with fewer cores than ranks it cannot reach 1, and the second figure says
how far the cores alone allow it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import FANSTORE, compile_reader

RANKS = (1, 2, 4)
ROUNDS = 7
# Sizes of the paper's figures that fit a quick run: name, bytes, files.
KINDS = (("4k", 4 << 10, 2048), ("128k", 128 << 10, 512), ("2m", 2 << 20, 48))
PARTITIONS = 16
LIMIT_S = 300
# Each rank asks its reader for ROUNDS rounds; the first warms up.
SCRIPT = (
    'for i in $(seq "$ROUNDS"); do echo "read $KIND"; done | '
    '"$@" "$FANSTORE_MOUNT_PREFIX" >"$OUT.$FANSTORE_RANK"'
)


@dataclass(frozen=True)
class Row:
    """One kind of files on some ranks: files/s of all ranks together, medians over the rounds."""

    kind: str
    ranks: int
    cores: int
    spread_files_per_s: float
    local_files_per_s: float
    efficiency: float
    local_efficiency: float


def make_files(top: Path) -> None:
    """FILES of each kind in eight folders, with random content of a fixed seed."""
    source = random.Random(1)
    for name, file_bytes, files in KINDS:
        for number in range(files):
            folder = top / name / f"folder-{number % 8}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"file-{number:05}").write_bytes(source.randbytes(file_bytes))


def find_mpiexec() -> str:
    """The launcher beside this Python, else on PATH."""
    found = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None:
        raise SystemExit("scaling: mpiexec is not there: pip install 'fanstore-fs[mpi]'")
    return found


def files_per_s(work: Path, reader: Path, kind: str, ranks: int, replicas: str) -> float:
    """Runs one job; what its ranks read together in a second."""
    for rank in range(ranks):
        (work / f"node-{rank}").mkdir(exist_ok=True)
    out = work / "out"
    options = [
        "--quiet", "--dataset", work / "dataset", "--replicas", replicas,
        "--mount", work / "mount-{rank}", "--local-dir", work / "node-{rank}",
    ]  # fmt: skip
    environment = {**os.environ, "ROUNDS": str(ROUNDS), "KIND": kind, "OUT": os.fspath(out)}
    subprocess.run(
        [find_mpiexec(), "-n", str(ranks), *FANSTORE, "run", *options, "--",
         "sh", "-c", SCRIPT, "reader", reader],
        check=True, env=environment, timeout=LIMIT_S,
    )  # fmt: skip
    return sum(_rate(Path(f"{out}.{rank}")) for rank in range(ranks))


def _rate(answers: Path) -> float:
    """Files/s of one rank, the median of its rounds."""
    rounds = [tuple(map(int, line.split())) for line in answers.read_text().splitlines()]
    return statistics.median(1e9 * files / elapsed_ns for files, elapsed_ns, _ in rounds[1:])


def measure(work: Path) -> list[Row]:
    """All rows."""
    make_files(work / "source")
    reader = compile_reader(work)
    subprocess.run(
        [*FANSTORE, "prepare", "--partitions", str(PARTITIONS), work / "source", work / "dataset"],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    rows: list[Row] = []
    for kind, _, _ in KINDS:
        alone = files_per_s(work, reader, kind, 1, "1")
        for ranks in RANKS:
            spread = files_per_s(work, reader, kind, ranks, "1")
            local = files_per_s(work, reader, kind, ranks, "all")
            share = alone * ranks
            cores = os.cpu_count() or 1
            rows.append(Row(kind, ranks, cores, spread, local, spread / share, local / share))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    parser.add_argument("--dir", type=Path, help="where to work (default: the temporary folder)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fanstore-bench-", dir=arguments.dir) as work:
        rows = measure(Path(work))
    print(f"{'files':8}{'ranks':>6}{'spread, files/s':>18}{'efficiency':>12}"
          f"{'all local, files/s':>21}{'efficiency':>12}")  # fmt: skip
    for r in rows:
        print(f"{r.kind:8}{r.ranks:>6}{r.spread_files_per_s:>18,.0f}{r.efficiency:>12.2f}"
              f"{r.local_files_per_s:>21,.0f}{r.local_efficiency:>12.2f}")  # fmt: skip
    print(f"on {os.cpu_count()} cores")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
