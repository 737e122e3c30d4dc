"""The rows of large files of another rank: reads at random places, compared with files of that
size, reads from front to back, and mappings. The notes say how many bytes came for each byte
read."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from data import make_kind
from mpi import run_job
from peers import prepare
from readers import HERE
from results import OURS, Goal, Result
from rows import KIB, MIB, Kind
from warm import Settings, say

SIZES = {"8k": 8 * KIB, "64k": 64 * KIB}
LARGE_BYTES, READS = 200 * MIB, 100
REPETITIONS = 3
SHORT = "a file of that size"
SEQUENCE, MAP = "pieces-sequence", "pieces-map"
KEYS = [*(f"pieces-{size}" for size in SIZES), SEQUENCE, MAP]


def build(work: Path) -> None:
    """Makes a dataset of one pack, which rank 0 has: two large files, and short ones."""
    for size in SIZES.values():
        make_kind(work / "made" / str(size), Kind(str(size), size, 1, READS))
        (work / "source").mkdir(exist_ok=True)
        (work / "made" / str(size) / "folder-00").rename(work / "source" / str(size))
    make_kind(work / "made" / "large", Kind("large", LARGE_BYTES, 1, 2))
    (work / "made" / "large" / "folder-00").rename(work / "source" / "large")
    files = sorted((work / "source" / "large").iterdir())
    for path, name in zip(files, ("random", "sequence"), strict=True):
        path.rename(path.with_name(name))
    prepare(work / "source", work / "dataset", "--partitions", "1")


def run_once(work: Path, file_bytes: int) -> dict[str, float]:
    """Runs one job. Returns the figures of pieces_side.py."""
    side = [sys.executable, HERE / "pieces_side.py", file_bytes, READS]
    options = ["--replicas", "1", "--order", "off"]
    printed = run_job(work, 2, work / "dataset", side, *options)
    figures: dict[str, float] = json.loads(printed)
    return figures


def random_row(size: str, runs: Sequence[dict[str, float]]) -> Result:
    """Returns the row of random reads of one size."""
    times = {OURS: [run["random_ns"] for run in runs], SHORT: [run["file_ns"] for run in runs]}
    ratio = statistics.median(run["random_ratio"] for run in runs)
    return Result.of(
        "pieces", f"pieces-{size}", f"{size} of a remote file, at random", "read", times,
        [Goal(SHORT, 1 / 1.3)],
        note=f"{ratio:.2f} bytes fetched for each byte read", bytes_per_unit=SIZES[size],
    )  # fmt: skip


def map_row(runs: Sequence[dict[str, float]]) -> Result:
    """Returns the row of a mapping of which one page is touched."""
    title = "mmap of a remote file of 200 MiB, one page touched"
    return Result.of("pieces", MAP, title, "call", {OURS: [run["map_ns"] for run in runs]})


def sequence_row(runs: Sequence[dict[str, float]]) -> Result:
    """Returns the row of a read from front to back."""
    ratio = statistics.median(run["sequence_ratio"] for run in runs)
    return Result.of(
        "pieces", SEQUENCE, "a remote file of 200 MiB, front to back", "MiB",
        {OURS: [run["sequence_ns"] for run in runs]},
        note=f"{ratio:.2f} bytes fetched for each byte read", bytes_per_unit=MIB,
    )  # fmt: skip


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Measures the rows whose keys are in `wanted`, and yields the result of each."""
    build(work)
    say("a large remote file")
    repetitions = min(settings.repetitions, REPETITIONS)
    runs = {
        size: [run_once(work, file_bytes) for _ in range(repetitions)]
        for size, file_bytes in SIZES.items()
        if f"pieces-{size}" in wanted or {SEQUENCE, MAP} & set(wanted)
    }
    every = [run for each in runs.values() for run in each]
    rows = [random_row(size, each) for size, each in runs.items()]
    rows += [sequence_row(every), map_row(every)]
    yield from (row for row in rows if row.key in wanted)
