"""Draws a report: all ratios, and the paper's figures 3 and 11 from our numbers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ranks import CEILING, LOCAL, RANKS, key_of
from ranks import KINDS as RANK_KINDS
from results import DIRECTORY, OURS, Report, Result, read_report
from rows import SIZES, TITLES

COLOURS = {
    OURS: "#c0392b", DIRECTORY: "#2c3e50", "tmpfs": "#27ae60",
    "squashfuse": "#8e44ad", "squashfs": "#9b59b6", "erofs": "#2980b9",
    "FUSE passthrough": "#f39c12",
}  # fmt: skip
# Returns the key of a size's row.
KeyOf = Callable[[str], str]


def _say_where(figure: Any, report: Report, text: str) -> None:
    """Writes below a figure which processes shared the cores; no process was pinned to one."""
    cores = report.machine["cores"]
    figure.supxlabel(f"{text}, on {cores} cores, pinned to none; wall clock", fontsize="small")


def _bars(axes: Any, groups: Sequence[str], series: dict[str, list[float]]) -> None:
    """Draws bars side by side: a group for each size, a colour for each peer."""
    width = 0.84 / max(1, len(series))
    for number, (name, values) in enumerate(series.items()):
        places = [at - 0.42 + width * (number + 0.5) for at in range(len(groups))]
        axes.bar(places, values, width, label=name, color=COLOURS.get(name))
    axes.set_xticks(range(len(groups)), groups)
    axes.set_yscale("log")
    axes.grid(axis="y", alpha=0.3)


def _by_peer(
    results: Sequence[Result], value: Callable[[Result, float], float]
) -> dict[str, list[float]]:
    """Returns a value of each row, by peer; 0 if the peer took no part."""
    names = dict.fromkeys(name for result in results for name in result.times_ns)
    return {
        name: [value(r, r.times_ns[name]) if name in r.times_ns else 0.0 for r in results]
        for name in names
    }


def _reads(report: Report, key: KeyOf) -> tuple[list[str], list[Result]]:
    found = [(size, report.find(key(size))) for size in SIZES]
    there = [(TITLES[size], result) for size, result in found if result is not None]
    return [title for title, _ in there], [result for _, result in there]


def bandwidth(result: Result, ns: float) -> float:
    """Returns the bandwidth in MiB/s."""
    return result.bytes_per_unit / ns * 1e9 / (1 << 20)


def rate(_: Result, ns: float) -> float:
    """Returns the rate in files/s."""
    return 1e9 / ns


def draw_figure_3(report: Report, plt: Any) -> Any | None:
    """Draws bandwidth and files/s by file size: warm, warm with an unaligned buffer, cold."""
    panels = [("warm", lambda s: f"read-{s}"), ("warm, unaligned buffer", lambda s: f"read16-{s}"),
              ("cold", lambda s: f"cold-{s}")]  # fmt: skip
    drawn = [(title, *_reads(report, key)) for title, key in panels]
    drawn = [(title, groups, results) for title, groups, results in drawn if results]
    if not drawn:
        return None
    figure, grid = plt.subplots(
        len(drawn), 2, figsize=(13, 3.6 * len(drawn)), squeeze=False, layout="constrained"
    )
    for line, (title, groups, results) in zip(grid, drawn, strict=True):
        _bars(line[0], groups, _by_peer(results, bandwidth))
        line[0].set_ylabel(f"{title}: MiB/s")
        _bars(line[1], groups, _by_peer(results, rate))
        line[1].set_ylabel(f"{title}: files/s")
    grid[0][1].legend(fontsize="small", ncols=2)  # the upper right corner is empty
    figure.suptitle("Reading whole files, one process (after figure 3 of the FanStore paper)")
    _say_where(figure, report, "one reader, and beside it the servers of those that have one")
    return figure


def draw_figure_11(report: Report, plt: Any) -> Any | None:
    """Draws the bandwidth of all ranks together by their number."""
    if not any(result.section == "ranks" for result in report.results):
        return None
    figure, line = plt.subplots(1, len(RANK_KINDS), figsize=(13, 3.4), layout="constrained")
    for axes, kind in zip(line, RANK_KINDS, strict=True):
        found = [(n, report.find(key_of(kind.name, n))) for n in RANKS]
        rows = [(ranks, result) for ranks, result in found if result is not None]
        for name, style in ((OURS, "o-"), (LOCAL, "s-"), (CEILING, "k:")):
            values = [bandwidth(result, result.times_ns[name]) for _, result in rows]
            label = "each pack on one rank" if name == OURS else name.removeprefix("FanStore, ")
            axes.plot([ranks for ranks, _ in rows], values, style, label=label)
        axes.set_title(TITLES[kind.name], fontsize="medium")
        axes.set_xticks(RANKS)
        axes.set_xlabel("ranks")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    line[0].set_ylabel("MiB/s of all ranks")
    line[0].legend(fontsize="small")
    figure.suptitle("Ranks of one machine (after figure 11 of the FanStore paper)")
    _say_where(figure, report, "for each rank a reader and a node daemon")
    return figure


def draw_ratios(report: Report, plt: Any) -> Any | None:
    """Draws FanStore's ratio to the directory in every row of one process, with its goal."""
    rows = [
        r for r in report.results
        if DIRECTORY in r.times_ns and OURS in r.times_ns and r.processes == r.threads == 1
    ]  # fmt: skip
    if not rows:
        return None
    figure, axes = plt.subplots(figsize=(9, 0.24 * len(rows) + 1.2), layout="constrained")
    places = range(len(rows), 0, -1)
    axes.barh(places, [r.ratio(DIRECTORY) for r in rows], color=COLOURS[OURS], label=OURS)
    held = [
        (place, goal.ratio)
        for place, r in zip(places, rows, strict=True) for goal in r.goals
        if goal.than == DIRECTORY
    ]  # fmt: skip
    axes.plot([ratio for _, ratio in held], [at for at, _ in held], "k|", ms=9, label="goal")
    axes.set_yticks(places, [r.title for r in rows], fontsize="small")
    axes.set_xscale("log")
    axes.axvline(1, color="black", lw=0.8)
    axes.set_xlabel("times faster than the directory")
    axes.legend(fontsize="small")
    axes.grid(axis="x", alpha=0.3)
    _say_where(figure, report, "one reader")
    return figure


def draw_threads(report: Report, plt: Any) -> Any | None:
    """Draws the throughput relative to one thread, by the number of threads."""
    alone = [r for r in report.results if r.section == "warm" and r.processes == r.threads == 1]
    keys = [r.key for r in alone if report.find(f"{r.key}-2t")]
    if not keys:
        return None
    figure, line = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained", sharey=True)
    for axes, name in zip(line, (OURS, DIRECTORY), strict=True):
        for key in keys:
            rows = [report.find(key), *(report.find(f"{key}-{n}t") for n in (2, 4, 8))]
            there = [r for r in rows if r is not None and name in r.times_ns]
            values = [there[0].times_ns[name] / r.times_ns[name] for r in there]
            axes.plot([r.threads for r in there], values, "o-", label=there[0].title)
        axes.set_title(name)
        axes.set_xticks((1, 2, 4, 8))
        axes.set_xlabel("threads")
        axes.grid(alpha=0.3)
    line[0].set_ylabel("throughput, one thread = 1")
    line[0].legend(fontsize="small")
    _say_where(figure, report, "the threads of one reader")
    return figure


FIGURES = {
    "figure-3": draw_figure_3, "figure-11": draw_figure_11, "ratios": draw_ratios,
    "threads": draw_threads,
}  # fmt: skip


def draw(report: Report, out: Path) -> list[Path]:
    """Draws all figures for which the report has rows. Returns the files. Raises ImportError."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    out.mkdir(parents=True, exist_ok=True)
    made = []
    for name, function in FIGURES.items():
        figure = function(report, plt)
        if figure is not None:
            made.append(out / f"{name}.svg")
            figure.savefig(made[-1], metadata={"Date": None})
            plt.close(figure)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path, help="what bench.py --json wrote")
    parser.add_argument("out", type=Path, help="where the figures go")
    arguments = parser.parse_args()
    draw(read_report(arguments.report), arguments.out)


if __name__ == "__main__":
    main()
