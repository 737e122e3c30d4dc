"""The figures from the samples of a trace, over time; and the access pattern: which files were
opened when, in the order of directories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fanstore.arrays import np
from fanstore.report.catalogue import CatalogueEntry
from fanstore.report.figures import Figures, RankFigures, work_out
from fanstore.report.files import FileFigures, use_of_files
from fanstore.report.foreseen import Foreseen, foreseen, from_buckets
from fanstore.trace import SOURCES, Trace

PANELS = 4
ROWS, COLUMNS = 80, 200


@dataclass(frozen=True)
class Pattern:
    """The opens of one rank. density: their number by place and time, shape (ROWS, COLUMNS); places
    are in the order of directories, the first at the top. in_order: the share of opens in which a
    program opens the file that follows its previous one in that order."""

    rank: int
    opens: int
    density: Any
    in_order: float


def patterns(trace: Trace, datasets: Sequence[CatalogueEntry], figures: Figures) -> list[Pattern]:
    """Returns the patterns of the first PANELS ranks that opened any file."""
    rank = trace.processes["rank"][trace.opens["process"]]
    seen = [each.rank for each in figures.ranks if (rank == each.rank).any()]
    places, count = _places(trace, datasets)
    made = []
    for each in seen[:PANELS]:
        mine = rank == each
        times_s = (trace.opens["time_ns"][mine] - figures.start_ns) / 1e9
        area = ((0, count), (0, max(figures.duration_s, 1e-9)))
        density = np.histogram2d(places[mine], times_s, (ROWS, COLUMNS), area)[0]
        in_order = _in_order(trace.opens["process"][mine], places[mine])
        made.append(Pattern(each, int(mine.sum()), density, in_order))
    return made


def _places(trace: Trace, datasets: Sequence[CatalogueEntry]) -> tuple[Any, int]:
    """Returns for each open the place of its file in the order of directories, and the number of
    places. The numbers of records are in that order."""
    opens = trace.opens
    places = np.zeros(len(opens), np.int64)
    before = 0
    for number in np.unique(opens["dataset"]):
        mine = opens["dataset"] == number
        count = int(opens["file"][mine].max()) + 1
        if number < len(datasets) and (dataset := datasets[number].dataset) is not None:
            count = max(count, len(dataset.records))
        places[mine] = before + opens["file"][mine].astype(np.int64)
        before += count
    return places, max(before, 1)


def _in_order(processes: Any, places: Any) -> float:
    order = np.argsort(processes, kind="stable")
    steps, same = np.diff(places[order]), np.diff(processes[order].astype(np.int64)) == 0
    return float((steps[same] == 1).mean()) if same.any() else 0.0


@dataclass(frozen=True)
class Gathered:
    """All figures of a report, from one trace."""

    figures: Figures
    files: FileFigures
    sampled: Sampled
    patterns: list[Pattern]
    foreseen: Foreseen | None
    buckets: dict[str, int]


def gather(trace: Trace, datasets: Sequence[CatalogueEntry]) -> Gathered:
    """Computes all figures of a report."""
    figures = work_out(trace, datasets)
    return Gathered(
        figures,
        use_of_files(trace, datasets, figures.start_ns),
        sampled(trace, figures),
        patterns(trace, datasets, figures),
        foreseen(trace, figures),
        from_buckets(trace),
    )


Array = Any

POINTS = 300  # the most points of a line
ORIGINS = ("disk", "cache", "rank", "shared")  # where bytes come from


@dataclass(frozen=True)
class Line:
    """A value of one rank over time. times_s: since the start."""

    rank: int
    times_s: Array
    values: Array


@dataclass(frozen=True)
class Sampled:
    """epoch_bytes: stored bytes that programs of all ranks read, by epoch and ORIGINS; None without
    samples. cache: how full each rank's cache was, over time; cache_fill, cache_bytes: the maximum
    of all ranks. published, placed: outputs of all ranks over time; delay_s: how long an output
    took from being published to the output directory, on average. shared_later_part: the part of
    the waits for the shared file system that came after the first epoch."""

    epoch_bytes: Array | None
    cache: list[Line]
    cache_fill: float
    cache_bytes: int
    output_times_s: Array
    published: Array
    placed: Array
    delay_s: float
    shared_later_part: float


def sampled(trace: Trace, figures: Figures) -> Sampled:
    """Computes the figures that need samples. (One does not: the part of waits for the shared file
    system after the first epoch.)"""
    by_rank = {
        each.rank: trace.samples[trace.samples["rank"] == each.rank] for each in figures.ranks
    }
    cache = [_fill(rank, taken, figures) for rank, taken in by_rank.items()]
    cache = [line for line in cache if len(line.values)]
    fullest = max(cache, key=lambda line: float(line.values.max()), default=None)
    times_s, published, placed = _outputs([each for each in by_rank.values() if len(each)], figures)
    total = float(published[-1]) if len(published) else 0.0
    area = float(_area(times_s, published - placed)) if total else 0.0
    return Sampled(
        _epoch_bytes(by_rank, figures) if len(trace.samples) else None,
        cache,
        float(fullest.values.max()) if fullest else 0.0,
        int(by_rank[fullest.rank]["cache_bytes"].max()) if fullest else 0,
        times_s,
        published,
        placed,
        area / total if total else 0.0,
        _shared_later(trace, figures),
    )


def _thinned(count: int) -> Array:
    """Returns the indices of at most POINTS of `count` points, including the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, POINTS)).astype(np.intp))


def _times_s(taken: Array, figures: Figures) -> Array:
    return (taken["time_ns"].astype(np.int64) - figures.start_ns) / 1e9


def _fill(rank: int, taken: Array, figures: Figures) -> Line:
    taken = taken[taken["cache_bytes"] > 0]
    taken = taken[_thinned(len(taken))] if len(taken) else taken
    return Line(
        rank,
        _times_s(taken, figures),
        taken["cache_used_bytes"] / np.maximum(taken["cache_bytes"], 1),
    )


def _origins(taken: Array, stored_part: float) -> Array:
    """Returns how many stored bytes had come from each origin at each sample, shape (samples,
    ORIGINS). Bytes of no other origin came from the local disk. stored_part: stored bytes for each
    byte that programs read."""
    stored = taken["stall_bytes"].astype(np.float64)
    others = [stored[:, SOURCES.index(name)] for name in ORIGINS[1:]]
    here = np.maximum(taken["read_bytes"] * stored_part - np.sum(others, axis=0), 0)
    return np.maximum.accumulate(np.stack([here, *others], axis=1), axis=0)


def _stored_part(figures: Figures) -> float:
    """Returns the stored size of the datasets' files divided by their logical size; 1 if
    unknown."""
    headers = [each.dataset.header for each in figures.datasets if each.dataset is not None]
    logical = sum(header.logical_bytes for header in headers)
    return sum(header.stored_bytes for header in headers) / logical if logical else 1.0


def _epoch_bytes(by_rank: dict[int, Array], figures: Figures) -> Array:
    total = np.zeros((max(figures.epochs, 1), len(ORIGINS)))
    stored_part = _stored_part(figures)
    for rank in figures.ranks:
        taken = by_rank[rank.rank]
        if len(taken) == 0:
            continue
        times_s, came = _times_s(taken, figures), _origins(taken, stored_part)
        edges_s = [-np.inf, *rank.epoch_starts_s[1:], np.inf]
        for number in range(len(ORIGINS)):
            at_edges = np.interp(edges_s, times_s, came[:, number])
            at_edges[0] = 0.0
            total[: len(edges_s) - 1, number] += np.diff(at_edges)
    return total


def _outputs(taken: Sequence[Array], figures: Figures) -> tuple[Array, Array, Array]:
    """Returns times, and how many outputs of all ranks were published and placed by then."""
    if not any(each["published"].any() for each in taken):
        return np.empty(0), np.empty(0), np.empty(0)
    times_s = np.unique(np.concatenate([_times_s(each, figures) for each in taken]))
    times_s = times_s[_thinned(len(times_s))]
    both = []
    for name in ("published", "placed"):
        lines = [np.interp(times_s, _times_s(each, figures), each[name]) for each in taken]
        both.append(np.sum(lines, axis=0))
    return times_s, both[0], np.minimum(both[0], both[1])


def _area(times: Array, values: Array) -> float:
    return float((np.diff(times) * (values[1:] + values[:-1])).sum()) / 2


def _shared_later(trace: Trace, figures: Figures) -> float:
    """Returns the part of the waits for the shared file system after their rank's first epoch."""
    shared = trace.stalls[trace.stalls["source"] == SOURCES.index("shared")]
    total = float(shared["duration_ns"].sum())
    later = sum(_later_ns(trace, shared, rank, figures.start_ns) for rank in figures.ranks)
    return later / total if total else 0.0


def _later_ns(trace: Trace, shared: Array, rank: RankFigures, start_ns: int) -> float:
    if len(rank.epoch_starts_s) < 2:
        return 0.0
    mine = shared[trace.processes["rank"][shared["process"]] == rank.rank]
    second_ns = start_ns + int(rank.epoch_starts_s[1] * 1e9)
    return float(mine["duration_ns"][mine["time_ns"] >= second_ns].sum())
