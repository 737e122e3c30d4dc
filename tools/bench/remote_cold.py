"""The rows of reads of files that another rank has on its disk and not in memory, 16 at a time,
compared with `pread` of the same pack by as many threads. Also how long reads of files that the
other rank has in memory wait meanwhile."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from cold import CACHED_MOST, drop
from data import make_files
from mpi import run_job
from peers import prepare
from readers import WHOLE, compile_c
from results import OURS, Goal, Result
from rows import KIB, Kind
from warm import Settings, say

COLD_KEY, WARM_KEY = KEYS = ("remote-cold-16", "remote-warm-beside-cold")
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


def build(work: Path) -> None:
    """Compiles the reader, and packs each kind of files into a dataset of one pack."""
    compile_c(work, ["remote_cold.c", *WHOLE])
    make_files(work / "source", [COLD, WARM])
    for kind in (COLD, WARM):
        source = work / "source" / kind.name / "folder-00"
        prepare(source, work / kind.name, "--partitions", "1")


def job(work: Path, command: Sequence[str | Path]) -> str:
    """Runs a command on two ranks that serve both datasets, and keeps what they staged."""
    options = ["--keep-staged", "--cache-policy", "close", "--replicas", "1"]  # nothing is copied
    more = ["--dataset", work / WARM.name, "--mount", work / "warm-mount-{rank}"]
    return run_job(work, 2, work / COLD.name, command, *options, *more)


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


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Measures the rows whose keys are in `wanted`, and yields the result of each."""
    say("cold reads of another rank")
    build(work)
    job(work, ["true"])  # a job that only stages
    runs = [measure_once(work) for _ in range(min(settings.repetitions, REPETITIONS))]
    bare = [ns for ns, _ in runs]
    cold, middle, late, reads = zip(*(ours for _, ours in runs), strict=True)
    if COLD_KEY in wanted:
        yield Result.of(
            "remote", COLD_KEY, "128k cold of another rank, 16 at once", "file",
            {PREAD: bare, OURS: cold}, [Goal(PREAD, 0.5)], bytes_per_unit=COLD.file_bytes,
        )  # fmt: skip
    if WARM_KEY in wanted:
        yield Result.of(
            "remote", WARM_KEY, "128k warm of another rank beside those, 99th percentile", "file",
            {OURS: late, LIMIT: [1e6]}, [Goal(LIMIT, 1.0)],
            f"median {statistics.median(middle) / 1e3:.0f} us of "
            f"{statistics.median(reads):.0f} reads", bytes_per_unit=WARM.file_bytes,
        )  # fmt: skip
