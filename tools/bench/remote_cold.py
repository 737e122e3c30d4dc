"""The rows of reads of files that another rank has on its disk and not in memory, 16 at a time,
compared with `pread` of the same pack by as many threads. Also how long reads of files that the
other rank has in memory wait meanwhile."""

from __future__ import annotations

import os
import shlex
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cold import CACHED_MOST, drop
from data import make_files
from mpi import find_mpiexec, run_ranks
from peers import FANSTORE
from readers import HERE
from remote import FLAGS
from results import OURS, Goal, Result
from rows import KIB, Kind
from warm import Settings, say

COLD_KEY, WARM_KEY = "remote-cold-16", "remote-warm-beside-cold"
COLD = Kind("cold", 128 * KIB, 1, 4096)
WARM = Kind("warm", 128 * KIB, 1, 64)
THREADS = 16
REPETITIONS = 5
PREAD, LIMIT = "pread, 16 threads", "1 ms"
# Rank 0 has both packs, so that rank 1 must fetch everything.
SCRIPT = (
    'if [ "$FANSTORE_RANK" = 1 ]; then exec "$0" files "$FANSTORE_MOUNT_PREFIX" "$1" '
    '"$FANSTORE_MOUNT_PREFIX_2"; fi'
)


def row_keys() -> list[str]:
    """Returns the keys of the rows that this module measures."""
    return [COLD_KEY, WARM_KEY]


def build(work: Path) -> None:
    """Compiles the reader, and packs each kind of files into a dataset of one pack."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    program = ["-pthread", "-o", work / "remote_cold", HERE / "c" / "remote_cold.c"]
    subprocess.run([*compiler, *FLAGS, *program], check=True)
    make_files(work / "source", [COLD, WARM])
    for kind in (COLD, WARM):
        source = work / "source" / kind.name / "folder-00"
        pack = [*FANSTORE, "prepare", "--quiet", "--partitions", "1", source, work / kind.name]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)


def job(work: Path, command: Sequence[str | Path]) -> str:
    """Runs a command on two ranks that serve both datasets, and keeps what they staged."""
    options: list[str | Path] = ["--quiet", "--keep-staged", "--output-dir", work / "output"]
    for kind in (COLD, WARM):
        options += ["--dataset", work / kind.name, "--mount", work / f"{kind.name}-mount-{{rank}}"]
    options += ["--local-dir", work / "node-{rank}"]
    options += ["--cache-policy", "close", "--replicas", "1"]  # nothing is copied
    return run_ranks(2, [*map(str, [*FANSTORE, "run", *options, "--", *command])], {})


def cold_pack(work: Path) -> Path:
    """Returns the staged pack of the cold files, after dropping all of its pages from memory."""
    (pack,) = (
        path for path in (work / "node-0").rglob("*.fsp")
        if path.stat().st_size > COLD.file_bytes * COLD.files_each
    )  # fmt: skip
    if drop([pack]) > CACHED_MOST:
        raise SystemExit("the pages of the cold pack stay in memory")
    return pack


def measure_once(work: Path) -> tuple[float, list[float]]:
    """Returns the nanoseconds of a chunk by pread; and of a cold file, with the median, 99th
    percentile and number of the warm reads meanwhile."""
    program = work / "remote_cold"
    bare = [program, "pack", cold_pack(work), str(COLD.file_bytes), str(THREADS)]
    said = subprocess.run(bare, check=True, stdout=subprocess.PIPE, text=True).stdout
    cold_pack(work)
    served = job(work, ["sh", "-c", SCRIPT, program, str(THREADS)])
    return float(said), [float(word) for word in served.split()]


def measure(
    work: Path, wanted: Sequence[str], settings: Settings
) -> tuple[list[Result], list[str]]:
    """Returns the rows of `wanted`, and the reasons why others are missing."""
    if find_mpiexec() is None:
        return [], ["remote-cold-*: mpiexec is not there: pip install 'fanstore-fs[mpi]'"]
    say("cold reads of another rank")
    build(work)
    for rank in (0, 1):
        (work / f"node-{rank}").mkdir()
    job(work, ["true"])  # a job that only stages
    runs = [measure_once(work) for _ in range(min(settings.repetitions, REPETITIONS))]
    bare = [ns for ns, _ in runs]
    cold, middle, late, reads = zip(*(ours for _, ours in runs), strict=True)
    results = [
        Result(
            "remote", COLD_KEY, "128k cold of another rank, 16 at once", "file",
            {PREAD: statistics.median(bare), OURS: statistics.median(cold)},
            {PREAD: (min(bare), max(bare)), OURS: (min(cold), max(cold))},
            [Goal(PREAD, 0.5)], bytes_per_unit=COLD.file_bytes,
        ),
        Result(
            "remote", WARM_KEY, "128k warm of another rank beside those, 99th percentile", "file",
            {OURS: statistics.median(late), LIMIT: 1e6}, {OURS: (min(late), max(late))},
            [Goal(LIMIT, 1.0)],
            f"median {statistics.median(middle) / 1e3:.0f} us of "
            f"{statistics.median(reads):.0f} reads", WARM.file_bytes,
        ),
    ]  # fmt: skip
    return [result for result in results if result.key in wanted], []
