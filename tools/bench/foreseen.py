"""Reads of what other ranks have, where `--order` says which come next, beside reads of local files
and of remote ones that nobody foresaw: four ranks, each of which reads at a pace."""

from __future__ import annotations

import os
import random
import shlex
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from data import make_files
from mpi import find_mpiexec, run_ranks
from peers import FANSTORE
from readers import HERE
from remote import FLAGS
from results import OURS, Goal, Result
from rows import KIB, Kind
from warm import Settings, say

from fanstore.dataset import open_dataset

RANKS = 4
FILES = 2000
PACE = 500  # files a second, of each rank
ROUNDS, REPETITIONS = 2, 3
KINDS = {"4k": Kind("4k", 4 * KIB, 1, FILES), "128k": Kind("128k", 128 * KIB, 1, FILES)}
SLOWER_MOST = {"4k": 2.0, "128k": 1.3}  # times a local read
LOCAL, UNFORESEEN = "local", "no --order"
SCRIPT = 'exec "$0" "$1-$FANSTORE_RANK" "$FANSTORE_MOUNT_PREFIX" "$2" "$3"'


def key_of(size: str) -> str:
    """Returns the key of a row."""
    return f"remote-foreseen-{size}"


def row_keys() -> list[str]:
    """Returns the keys of the rows that this module measures."""
    return [key_of(size) for size in KINDS]


def build(work: Path) -> None:
    """Compiles the reader, and packs each kind of files into a dataset with a pack for each rank;
    beside it lie lists of what each rank is to read: what it has, and what others have."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    program = ["-o", work / "paced", HERE / "c" / "paced.c"]
    subprocess.run([*compiler, *FLAGS, *program], check=True)
    make_files(work / "source", list(KINDS.values()))
    for kind in KINDS.values():
        source = work / "source" / kind.name / "folder-00"
        packs = ["--quiet", "--partitions", str(RANKS)]
        pack = [*FANSTORE, "prepare", *packs, source, work / kind.name]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
        make_lists(work / kind.name, [path.name for path in source.iterdir()])
    for rank in range(RANKS):
        (work / f"node-{rank}").mkdir()


def make_lists(dataset: Path, names: Sequence[str]) -> None:
    """Writes DATASET-local-RANK and DATASET-remote-RANK."""
    with open_dataset(dataset) as opened:
        keeper = {n: opened.record(opened.lookup(n.encode())).pack % RANKS for n in names}
    for rank in range(RANKS):
        shuffled = sorted(names)
        random.Random(rank).shuffle(shuffled)
        for which, is_here in (("local", True), ("remote", False)):
            chosen = [name for name in shuffled if (keeper[name] == rank) == is_here]
            Path(f"{dataset}-{which}-{rank}").write_text("\n".join(chosen) + "\n")


def read(work: Path, size: str, which: str, order: Sequence[str] = ()) -> tuple[float, float]:
    """Has all ranks read the files of a list; returns the median and the 99th percentile in ns,
    each the mean over the ranks."""
    options = [
        "--quiet", "--dataset", work / size, "--mount", work / "mount-{rank}", "--keep-staged",
        "--local-dir", work / "node-{rank}", "--output-dir", work / "output",
        "--cache-policy", "close", *order,
    ]  # fmt: skip
    reader = ["sh", "-c", SCRIPT, work / "paced", work / f"{size}-{which}", str(PACE), str(ROUNDS)]
    command = [*FANSTORE, "run", *options, "--", *reader]
    rows = [line.split() for line in run_ranks(RANKS, command, {}).splitlines()]
    middle, late = zip(*rows, strict=True)
    return statistics.mean(map(float, middle)), statistics.mean(map(float, late))


def measure_row(work: Path, size: str, repetitions: int) -> Result:
    """Returns one row."""
    say(f"{size} of other ranks, foreseen")
    order = ["--order", f"{work / size}-remote-{{rank}}"]
    ways = {LOCAL: ("local", ()), UNFORESEEN: ("remote", ()), OURS: ("remote", order)}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(repetitions):
        for name, (which, options) in ways.items():
            found[name].append(read(work, size, which, options))
    middles = {name: [middle for middle, _ in runs] for name, runs in found.items()}
    lates = {name: statistics.median(late for _, late in runs) for name, runs in found.items()}
    return Result(
        "remote", key_of(size), f"{size} of other ranks, foreseen", "file",
        {name: statistics.median(values) for name, values in middles.items()},
        {name: (min(values), max(values)) for name, values in middles.items()},
        [Goal(LOCAL, 1 / SLOWER_MOST[size])],
        f"{PACE} files/s a rank; 99th percentiles: "
        + ", ".join(f"{name} {late / 1e3:.0f} us" for name, late in lates.items()),
        KINDS[size].file_bytes, processes=RANKS,
    )  # fmt: skip


def measure(
    work: Path, wanted: Sequence[str], settings: Settings
) -> tuple[list[Result], list[str]]:
    """Measures the rows of `wanted`; returns them, and why some were left out."""
    if find_mpiexec() is None:
        return [], ["remote-foreseen-*: mpiexec is not there: pip install 'fanstore-fs[mpi]'"]
    build(work)
    return [
        measure_row(work, size, min(settings.repetitions, REPETITIONS))
        for size in KINDS
        if key_of(size) in wanted
    ], []
