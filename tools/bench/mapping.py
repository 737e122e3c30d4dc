"""The rows of fanstore.Dataset in a Python without a job, compared with files on the local disk:
the cost of a sample of 4 KiB, with both sides warm and in one random order, in turn in one
process."""

from __future__ import annotations

import random
import statistics
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter_ns

from data import make_files, smaller
from peers import FANSTORE
from results import DIRECTORY, OURS, Goal, Result
from rows import KIB, Kind
from warm import Settings, say

import fanstore

KEY, RATIO = "mapping-4k", 1.5
KIND = Kind("mapping", 4 * KIB, 40, 500)


def row_keys() -> list[str]:
    """Returns the keys of the rows that this module measures."""
    return [KEY]


def read_file(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def ns_per_file(read: Callable[[str], bytes], paths: Sequence[str]) -> float:
    """Returns nanoseconds per file."""
    begun = perf_counter_ns()
    for path in paths:
        read(path)
    return (perf_counter_ns() - begun) / len(paths)


def measure(
    work: Path, wanted: Sequence[str], settings: Settings
) -> tuple[list[Result], list[str]]:
    """Returns the rows of `wanted`, and the reasons why others are missing."""
    if not wanted:
        return [], []
    say("a dataset as a mapping")
    source, packed = work / "mapping-source", work / "mapping-data"
    make_files(source, [smaller(KIND) if settings.quick else KIND])
    prepare = [*FANSTORE, "prepare", "--quiet", source, packed]
    subprocess.run(prepare, check=True, stdout=subprocess.DEVNULL)
    times: dict[str, list[float]] = {OURS: [], DIRECTORY: []}
    with fanstore.Dataset(packed) as dataset:
        names = random.Random(1).sample(list(dataset), len(dataset))
        paths = [str(source / name) for name in names]
        for _ in range(settings.repetitions + 1):
            times[OURS].append(ns_per_file(dataset.__getitem__, names))
            times[DIRECTORY].append(ns_per_file(read_file, paths))
    warm = {name: values[1:] for name, values in times.items()}
    return [
        Result(
            "python", KEY, "dataset[path], no job, from Python", "file of 4 KiB",
            {name: statistics.median(values) for name, values in warm.items()},
            {name: (min(values), max(values)) for name, values in warm.items()},
            [Goal(DIRECTORY, RATIO)], bytes_per_unit=KIND.file_bytes,
        )
    ], []  # fmt: skip
