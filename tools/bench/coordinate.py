"""The rows of a search with four jobs that prepare batches together, compared with the same jobs
each by itself. Decoding of JPEGs is the limit. A row has the wall-clock time of an epoch per sample
that a job gets."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from data import make_files, smaller
from peers import FANSTORE, Peer, Place, serving
from readers import HERE
from results import OURS, Goal, Result
from rows import Kind
from warm import Settings, say

JOBS, REPETITIONS = 4, 3
RATIO = 3.2
ALONE = "uncoordinated"
KEY = "coordinate-4"
KIND = Kind("jpeg", 0, 8, 64, "jpeg", ".jpg")
LIMIT_S = 300


def row_keys() -> list[str]:
    """Returns the keys of the rows that this module measures."""
    return [KEY]


def epoch_ns(peer: Peer, is_shared: bool, repetition: int) -> float:
    """Returns nanoseconds per sample of an epoch of all jobs, which begin at the same time."""
    kind = "shared" if is_shared else "alone"
    command = [*peer.command, sys.executable, HERE / "coordinate_job.py", peer.root, kind]
    jobs = [
        subprocess.Popen([*command, str(repetition), str(n)], stdout=subprocess.PIPE, text=True)
        for n in range(JOBS)
    ]
    said = [job.communicate(timeout=LIMIT_S)[0] for job in jobs]
    if any(job.returncode for job in jobs):
        raise subprocess.SubprocessError("a job of the coordinated search failed")
    begun, ended, samples = zip(*(map(int, line.split()) for line in said), strict=True)
    return float((max(ended) - min(begun)) / samples[0])


def measure(
    work: Path, wanted: Sequence[str], settings: Settings
) -> tuple[list[Result], list[str]]:
    """Returns the rows of `wanted`, and the reasons why others are missing."""
    if not wanted:
        return [], []
    say("a coordinated search of four jobs")
    source, dataset = work / "coordinate-source", work / "coordinate-data"
    skipped = make_files(source, [smaller(KIND) if settings.quick else KIND])
    if skipped:
        return [], skipped
    subprocess.run(
        [*FANSTORE, "prepare", "--quiet", source, dataset], check=True, stdout=subprocess.DEVNULL
    )
    times: dict[str, list[float]] = {OURS: [], ALONE: []}
    with serving("coordinate", Place(work, source, dataset), dataset) as peer:
        for repetition in range(min(REPETITIONS, settings.repetitions)):
            for name in times:
                times[name].append(epoch_ns(peer, name == OURS, repetition))
    return [
        Result(
            "coordinated", KEY, "four jobs that decode JPEGs", "sample of a job",
            {name: statistics.median(values) for name, values in times.items()},
            {name: (min(values), max(values)) for name, values in times.items()},
            [Goal(ALONE, RATIO)], processes=JOBS,
        )
    ], []  # fmt: skip
