"""The rows of a search with four jobs that prepare batches together, compared with the same jobs
each by itself. Decoding of JPEGs is the limit. A row has the wall-clock time of an epoch per sample
that a job gets."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path

from data import make_files, smaller
from peers import Peer, Place, prepare, serving
from readers import HERE
from results import OURS, Goal, Result
from rows import Kind
from warm import Settings, in_turns, say

JOBS, REPETITIONS = 4, 3
RATIO = 3.2
ALONE = "uncoordinated"
KEYS = ["coordinate-4"]
KIND = Kind("jpeg", 0, 8, 64, "jpeg", ".jpg")
LIMIT_S = 300


def epoch_ns(peer: Peer, kind: str, repetitions: Iterator[int]) -> float:
    """Returns nanoseconds per sample of an epoch of all jobs, which begin at the same time."""
    command = [*peer.command, sys.executable, HERE / "coordinate_job.py", peer.root, kind]
    command.append(str(next(repetitions)))
    jobs = [
        subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, text=True) for n in range(JOBS)
    ]
    said = [job.communicate(timeout=LIMIT_S)[0] for job in jobs]
    if any(job.returncode for job in jobs):
        raise subprocess.SubprocessError("a job of the coordinated search failed")
    begun, ended, samples = zip(*(map(int, line.split()) for line in said), strict=True)
    return float((max(ended) - min(begun)) / samples[0])


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Yields the row, or the reason why it is missing."""
    say("a coordinated search of four jobs")
    source, dataset = work / "coordinate-source", work / "coordinate-data"
    skipped = make_files(source, [smaller(KIND) if settings.quick else KIND])
    if skipped:
        yield from skipped
        return
    prepare(source, dataset)
    with serving("coordinate", Place(work, source, dataset), dataset) as peer:
        kinds = {OURS: "shared", ALONE: "alone"}
        sides = {name: partial(epoch_ns, peer, kind, count()) for name, kind in kinds.items()}
        times = in_turns(sides, min(REPETITIONS, settings.repetitions))
    yield Result.of(
        "coordinated", KEYS[0], "four jobs that decode JPEGs", "sample of a job", times,
        [Goal(ALONE, RATIO)], processes=JOBS,
    )  # fmt: skip
