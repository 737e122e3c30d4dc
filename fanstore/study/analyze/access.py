"""Reads from a job's trace what the job read, for a replay and for the bytes of a sample; and how
well its datasets would compress."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import zstandard

from fanstore.arrays import np
from fanstore.dataset import Dataset, are_files
from fanstore.trace import Trace

_READER = 0.05  # a program with fewer than this share of the busiest one's reads is no reader
_LARGE = 0.5  # opens for each sample; with fewer, samples are parts of larger files

Parts = list[tuple[str, int]]  # a path, and the number of a MiB in it


@dataclass(frozen=True)
class Served:
    """A dataset of the job, and its mount prefix on each rank."""

    prefixes: tuple[str, ...]
    dataset: Dataset


@dataclass(frozen=True)
class Access:
    """The reads of a job. lists: for each rank, the parts of files that each of its readers was the
    first to read. opens: how many files were opened. opened_bytes: their mean size. read_bytes: by
    all programs. times_s: when each open was, since the first."""

    lists: list[list[Parts]]
    opens: int
    opened_bytes: float
    read_bytes: int
    times_s: Any

    def sample_bytes(self, samples: float) -> float:
        """Returns the mean bytes of a sample, given that `samples` samples were read: whole files,
        or parts of larger ones."""
        ratio = self.opens / max(1.0, samples)
        if ratio >= _LARGE:
            return max(1, round(ratio)) * self.opened_bytes
        return self.read_bytes / max(1.0, samples)


def access_of(trace: Trace, served: Sequence[Served], most: int) -> Access:
    """Returns the reads in a trace. most: the most reads to replay."""
    opens = trace.opens
    reads = _reads(trace)
    opened = [
        served[number].dataset.records["logical_size"][file]
        for number, file in zip(opens["dataset"].tolist(), opens["file"].tolist(), strict=True)
        if number < len(served)
    ]
    times = opens["time_ns"]
    return Access(
        _lists(trace, reads[:most], served),
        len(opens),
        float(np.mean(opened)) if opened else 0.0,
        trace.total("read_bytes"),
        (times - times[0]) / 1e9 if len(times) else times,
    )


def _reads(trace: Trace) -> Any:
    """Returns the opens, and the reads of further parts of large files, by programs with a good
    part of all reads. Each part of a file comes once, in the order of time."""
    first = np.zeros(len(trace.opens), trace.blocks.dtype)
    for name in trace.opens.dtype.names:
        first[name] = trace.opens[name]
    reads = np.concatenate([first, trace.blocks])
    reads = reads[np.argsort(reads["time_ns"], kind="stable")]
    counts = np.bincount(reads["process"], minlength=len(trace.processes))
    busy = counts >= _READER * counts.max(initial=1)
    reads = reads[busy[reads["process"]]]
    _, places = np.unique(reads[["dataset", "file", "block"]], return_index=True)
    return reads[np.sort(places)]


def _lists(trace: Trace, reads: Any, served: Sequence[Served]) -> list[list[Parts]]:
    ranks: list[list[Parts]] = [[] for _ in range(1 + int(trace.processes["rank"].max(initial=0)))]
    ends: list[list[int]] = [[] for _ in ranks]  # for each rank: when each of its readers read last
    rows = [reads[reads["process"] == process] for process in np.unique(reads["process"])]
    for row in sorted(rows, key=lambda each: int(each["time_ns"][0])):
        rank = int(trace.processes["rank"][row["process"][0]])
        parts = [part for each in row for part in _part(each, served, rank)]
        first, last = int(row["time_ns"][0]), int(row["time_ns"][-1])
        # Workers of one epoch take the places of those of the epoch before.
        free = [place for place, end in enumerate(ends[rank]) if end <= first]
        if free:
            ranks[rank][free[0]] += parts
            ends[rank][free[0]] = last
        else:
            ranks[rank].append(parts)
            ends[rank].append(last)
    return ranks


def _part(read: Any, served: Sequence[Served], rank: int) -> Parts:
    number = int(read["dataset"])
    if number >= len(served):
        return []
    name = os.fsdecode(served[number].dataset.relpath(int(read["file"])))
    return [(os.path.join(served[number].prefixes[rank], name), int(read["block"]))]


_FILES = 64
_BYTES_MOST = 16 << 20
_STORED = 0  # the codec of uncompressed content


def tried(dataset: Dataset) -> dict[str, float] | None:
    """Compresses a sample of a dataset with zstd. Returns `ratio`, the bytes divided by the
    compressed bytes, and `decode_bytes_per_s` of one core; None if the dataset is compressed
    already, or empty."""
    content = b"".join(_some(dataset))
    if not content:
        return None
    packed = zstandard.ZstdCompressor().compress(content)
    begin_s = time.perf_counter()
    zstandard.ZstdDecompressor().decompress(packed)
    seconds = max(1e-9, time.perf_counter() - begin_s)
    return {"ratio": len(content) / len(packed), "decode_bytes_per_s": len(content) / seconds}


def _some(dataset: Dataset) -> list[bytes]:
    """Returns the content of some uncompressed files from all parts of the dataset."""
    records: Any = dataset.records
    ids = np.flatnonzero(
        are_files(records) & (records["codec"] == _STORED) & (records["logical_size"] > 0)
    )
    found, left = [], _BYTES_MOST
    for record in ids[:: max(1, len(ids) // _FILES)].tolist():
        row = records[record]
        with dataset.pack_path(int(row["pack"])).open("rb") as stream:
            stream.seek(int(row["offset"]))
            found.append(stream.read(min(left, int(row["stored_size"]))))
        left -= len(found[-1])
    return found
