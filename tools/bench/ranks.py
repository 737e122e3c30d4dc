"""Measures how reading scales with the ranks of a job: every rank reads all files, in an order of
its own.

There are 1, 2 and 4 ranks on this machine, each with a local directory of its own. Either each pack
is on one rank, so that (N-1)/N of the reads are remote, or every pack is on every rank. The ranks
meet before each round and read for the same time. The time in a row is the wall-clock time from the
first start to the last end, divided by the files that all ranks read. Readers and daemons are
pinned to no core. "one rank times cores" is one rank's rate times the ranks that have a core of
their own: more ranks than cores cannot read faster than that."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from data import make_files
from mpi import run_job
from peers import prepare
from readers import HERE, compile_reader, parse, wall_ns_per_unit
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
CEILING, LOCAL = "one rank times cores", "FanStore, all local"


def key_of(kind: str, ranks: int) -> str:
    return f"ranks-{kind}-{ranks}"


KEYS = [key_of(kind.name, ranks) for kind in KINDS for ranks in RANKS]


def ns_per_file(work: Path, reader: Path, kind: str, ranks: int, replicas: str) -> float:
    """Runs one job. Returns the wall-clock time for each file that its ranks read, as the median of
    its rounds."""
    with tempfile.TemporaryDirectory(dir=work) as meeting:
        side = [sys.executable, HERE / "rank_side.py", reader, kind, ranks, ROUNDS, meeting]
        run_job(work, ranks, work / "dataset", side, "--replicas", replicas)
        sides = [Path(meeting, f"answers-{rank}").read_text().split("\n") for rank in range(ranks)]
    rounds = [[parse(side[number]) for side in sides] for number in range(ROUNDS)]
    return statistics.median(map(wall_ns_per_unit, rounds))


def measure_row(work: Path, reader: Path, kind: Kind, ranks: int, alone_ns: float) -> Result:
    """Measures one row. `alone_ns`: the time that one rank takes for a file."""
    title = f"{TITLES[kind.name]}, {ranks} rank" + "s" * (ranks > 1)
    say(title)
    spread = ns_per_file(work, reader, kind.name, ranks, "1")
    local = ns_per_file(work, reader, kind.name, ranks, "all")
    cores = len(os.sched_getaffinity(0))
    ceiling = alone_ns / min(ranks, cores)
    return Result(
        "ranks", key_of(kind.name, ranks), title, "file",
        {CEILING: ceiling, OURS: spread, LOCAL: local},
        bytes_per_unit=kind.file_bytes,
        note=f"readers and daemons on {cores} cores: {ranks} of each",
    )  # fmt: skip


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Measures the rows whose keys are in `wanted`, and yields the result of each."""
    make_files(work / "source", KINDS)
    reader = compile_reader(work)
    prepare(work / "source", work / "dataset", "--partitions", str(PARTITIONS))
    for kind in KINDS:
        rows = [ranks for ranks in RANKS if key_of(kind.name, ranks) in wanted]
        if rows:
            alone = ns_per_file(work, reader, kind.name, 1, "1")
            for ranks in rows:
                yield measure_row(work, reader, kind, ranks, alone)
