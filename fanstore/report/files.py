"""The files that a job opened: the busiest directories, the longest waits, and files never read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from fanstore.arrays import np
from fanstore.report.catalogue import CatalogueEntry, shown
from fanstore.trace import SOURCES, Trace

SHOWN = 20


@dataclass(frozen=True)
class DirectoryOpens:
    """A directory, and the opens of files directly in it."""

    name: str
    opens: int
    files: int
    waited_s: float


@dataclass(frozen=True)
class Wait:
    """One of the longest waits. time_s: its end, since the start; keeper: the one rank besides the
    waiting one that has the file, or a negative number."""

    name: str
    rank: int
    program: str
    source: str
    keeper: int
    time_s: float
    waited_s: float


@dataclass(frozen=True)
class FileFigures:
    """How the files of the datasets were used. never_count, never_bytes, dataset_*: only of
    datasets whose indexes could be opened; never_shown: the first names. replicas: how many ranks
    have most packs; 0 if that is unknown, or packs are divided."""

    hottest: list[DirectoryOpens]
    slowest: list[Wait]
    opened_files: int
    dataset_files: int
    dataset_bytes: int
    never_count: int
    never_bytes: int
    never_shown: list[str]
    replicas: int


def use_of_files(trace: Trace, datasets: Sequence[CatalogueEntry], start_ns: int) -> FileFigures:
    """Computes how the files of a job's datasets were used."""
    opens = trace.opens
    opened, counts = np.unique(
        opens["dataset"].astype(np.int64) << 32 | opens["file"], return_counts=True
    )
    stalls = trace.stalls
    hottest: list[DirectoryOpens] = []
    never_shown: list[str] = []
    never_count = never_bytes = files = size = 0
    for number, entry in enumerate(datasets):
        if entry.dataset is None:
            continue
        ids = entry.files()
        mine = opened >> 32 == number
        seen, times = opened[mine] & 0xFFFFFFFF, counts[mine]
        inside = seen < len(entry.dataset.records)
        own = stalls[stalls["dataset"] == number]
        hottest += _directories(entry, seen[inside], times[inside], own)
        never = np.setdiff1d(ids, seen)
        sizes = entry.dataset.records["logical_size"]
        never_count, never_bytes = never_count + len(never), never_bytes + int(sizes[never].sum())
        files, size = files + len(ids), size + int(sizes[ids].sum())
        names = (entry.file_name(int(each)) for each in never[: SHOWN - len(never_shown)])
        never_shown += [_in(datasets, entry, name) for name in names]
    hottest.sort(key=lambda each: -each.opens)
    return FileFigures(
        hottest[:SHOWN], _slowest(trace, datasets, start_ns), len(opened), files, size,
        never_count, never_bytes, never_shown, _replicas(datasets),
    )  # fmt: skip


def _in(datasets: Sequence[CatalogueEntry], entry: CatalogueEntry, name: str) -> str:
    """Returns the name of a file, with its mount if there are several."""
    return f"{entry.mount_prefix}/{name}" if len(datasets) > 1 else name


def _directories(
    entry: CatalogueEntry, files: Any, times: Any, stalls: Any
) -> list[DirectoryOpens]:
    """Returns the SHOWN directories with the most opens. times: how often each file was opened."""
    assert entry.dataset is not None
    records = entry.dataset.records
    parents = records["parent"][files]
    opens = np.bincount(parents, times, len(records))
    known = stalls["file"] < len(records)
    of_stalls = records["parent"][stalls["file"][known]]
    waited_ns = np.bincount(of_stalls, stalls["duration_ns"][known], len(records))
    files_of = np.bincount(parents, minlength=len(records))
    busiest = np.argsort(-opens, kind="stable")[:SHOWN]
    return [
        DirectoryOpens(
            f"{entry.mount_prefix}/{entry.file_name(int(each))}".replace("/(the root)", ""),
            int(opens[each]),
            int(files_of[each]),
            float(waited_ns[each]) / 1e9,
        )
        for each in busiest
        if opens[each]
    ]


def _slowest(trace: Trace, datasets: Sequence[CatalogueEntry], start_ns: int) -> list[Wait]:
    order = np.argsort(-trace.stalls["duration_ns"], kind="stable")
    longest = trace.stalls[order[:SHOWN]]
    made = []
    for stall in longest:
        program = trace.processes[int(stall["process"])]
        number, file = int(stall["dataset"]), int(stall["file"])
        name, keeper = "none", -1
        if file != 0xFFFFFFFF:
            name = f"file {file:,}"
            if number < len(datasets):
                entry = datasets[number]
                name = _in(datasets, entry, entry.file_name(file))
                asked = np.array([file]), np.array([program["rank"]])
                keeper = int(entry.keepers(*asked)[0])
        source = SOURCES[int(stall["source"])]
        made.append(
            Wait(
                name, int(program["rank"]), f"{shown(bytes(program['comm']))} ({program['pid']})",
                source, keeper if source == "rank" else -1,
                (int(stall["time_ns"]) - start_ns) / 1e9, int(stall["duration_ns"]) / 1e9,
            )
        )  # fmt: skip
    return made


def _replicas(datasets: Sequence[CatalogueEntry]) -> int:
    counts = [len(ranks) for entry in datasets for ranks in entry.pack_ranks]
    return int(median(counts)) if counts else 0
