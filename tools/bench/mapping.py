"""The rows of fanstore.Dataset in a Python without a job, compared with files on the local disk:
the cost of a sample of 4 KiB, with both sides warm and in one random order, in turn in one
process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter_ns

from data import make_files, smaller
from peers import prepare
from results import DIRECTORY, OURS, Goal, Result
from rows import KIB, Kind
from warm import Settings, in_turns, say

import fanstore

KEYS, RATIO = ["mapping-4k"], 1.5
KIND = Kind("mapping", 4 * KIB, 40, 500)


def read_file(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def ns_per_file(read: Callable[[str], bytes], paths: Sequence[str]) -> float:
    """Returns nanoseconds per file."""
    begun = perf_counter_ns()
    for path in paths:
        read(path)
    return (perf_counter_ns() - begun) / len(paths)


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Measures the row of this module, and yields its result."""
    say("a dataset as a mapping")
    source, packed = work / "mapping-source", work / "mapping-data"
    make_files(source, [smaller(KIND) if settings.quick else KIND])
    prepare(source, packed)
    with fanstore.Dataset(packed) as dataset:
        names = random.Random(1).sample(list(dataset), len(dataset))
        paths = [str(source / name) for name in names]
        sides = {
            OURS: partial(ns_per_file, dataset.__getitem__, names),
            DIRECTORY: partial(ns_per_file, read_file, paths),
        }
        times = in_turns(sides, settings.repetitions, 1)
    yield Result.of(
        "python", KEYS[0], "dataset[path], no job, from Python", "file of 4 KiB", times,
        [Goal(DIRECTORY, RATIO)], bytes_per_unit=KIND.file_bytes,
    )  # fmt: skip
