"""The access pattern: where in the order of directories the opened files are, against time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fanstore.arrays import np
from fanstore.report.catalogue import Entry
from fanstore.report.figures import Figures
from fanstore.trace import Trace

PANELS = 4
ROWS, COLUMNS = 80, 200


@dataclass(frozen=True)
class Pattern:
    """The opens of one rank. density: how many there were, of shape (ROWS, COLUMNS): by place in
    the order of directories, the first at the top, and by time. in_order: the part of opens that go
    to the file behind that of the open before, by the same program."""

    rank: int
    opens: int
    density: Any
    in_order: float


def patterns(trace: Trace, datasets: Sequence[Entry], figures: Figures) -> list[Pattern]:
    """Returns the patterns of the first PANELS ranks that opened anything."""
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


def _places(trace: Trace, datasets: Sequence[Entry]) -> tuple[Any, int]:
    """Returns for each open the place of its file, and the number of places. Records are numbered
    in the order of directories."""
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
