"""The detailed plots of a report: lengths of waits, order of reads, block cache, outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.report.charts import COLOURS, DRAWN, LINES_SHOWN, drawn, percent_axis, time_axis
from fanstore.report.sampled import Gathered
from fanstore.trace import SOURCES
from fanstore.wording import SOURCE_WORDS, counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

_TIMES_NS = {
    "1 µs": 1e3, "10 µs": 1e4, "100 µs": 1e5, "1 ms": 1e6, "10 ms": 1e7, "100 ms": 1e8, "1 s": 1e9,
    "10 s": 1e10, "100 s": 1e11,
}  # fmt: skip


def lengths_of_waits(got: Gathered) -> str:
    """Draws how long waits were, with one row for each source."""
    figures = got.figures
    present = [number for number in range(len(SOURCES)) if figures.waits[number]]
    used = np.flatnonzero(figures.bins.sum(axis=0))
    first, last = int(used[0]), int(used[-1]) + 1

    def draw(drawing: Drawing) -> None:
        rows = drawing.subplots(len(present), 1, sharex=True, squeeze=False)[:, 0]
        for axes, number in zip(rows, present, strict=True):
            counts = figures.bins[number][first:last]
            color = DRAWN[SOURCES[number]]
            axes.bar(np.arange(first, last) + 0.5, counts, width=0.9, color=color)
            count = int(figures.waits[number])
            axes.set_title(f"{SOURCE_WORDS[SOURCES[number]]}: {counted(count, 'wait')}", loc="left")
            axes.set_ylim(0, 1.1 * max(1, int(counts.max())))
            axes.locator_params(axis="y", nbins=3, integer=True)
            axes.yaxis.set_major_formatter("{x:,.0f}")
            axes.grid(axis="y")
        ticks = {text: np.log2(ns) for text, ns in _TIMES_NS.items()}
        inside = {text: at for text, at in ticks.items() if first - 0.5 <= at <= last + 0.5}
        rows[-1].set_xticks(list(inside.values()), list(inside))
        rows[-1].set_xlim(first - 0.5, last + 0.5)
        rows[-1].set_xlabel("how long a wait took")
        drawing.supylabel("waits", size=9)

    return drawn("lengths", 0.65 + 0.95 * len(present), draw)


def access_pattern(got: Gathered) -> str:
    """Draws which files were opened over time, by their place in the order of directories."""
    rgb = [int(COLOURS["accent"][0][at : at + 2], 16) / 255 for at in (1, 3, 5)]
    # A picture does not follow the theme, so it has a colour between those for light and dark
    # pages.
    rgb = [(one + int(COLOURS["accent"][1][at : at + 2], 16) / 255) / 2
           for one, at in zip(rgb, (1, 3, 5), strict=True)]  # fmt: skip
    patterns = got.patterns

    def show(axes: Axes, density: np.ndarray) -> None:
        image = np.zeros((*density.shape, 4))
        image[..., :3] = rgb
        image[..., 3] = np.where(density > 0, 0.45 + 0.55 * density / max(density.max(), 1), 0)
        scale = time_axis(axes, got.figures.duration_s)
        extent = (0, max(got.figures.duration_s / scale, 1e-9), 1, 0)
        axes.imshow(image, aspect="auto", extent=extent, interpolation="nearest")

    def draw(drawing: Drawing) -> None:
        columns = min(2, len(patterns))
        rows = -(-len(patterns) // columns)
        grid = drawing.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes, pattern in zip(grid.ravel(), patterns, strict=False):
            show(axes, pattern.density)
            axes.set_title(f"rank {pattern.rank}: {pattern.opens:,} opens", loc="left")
            axes.set_yticks([0, 1], ["first file", "last file"])
        for axes in grid[:-1].ravel():
            axes.set_xlabel("")
        for axes in grid.ravel()[len(patterns) :]:
            axes.set_axis_off()

    return drawn("access", 0.5 + 1.9 * -(-len(patterns) // 2), draw)


def cache_fill(got: Gathered) -> str:
    """Draws how full the block cache of each rank was."""
    lines = got.sampled.cache

    def draw(drawing: Drawing) -> None:
        axes = drawing.subplots()
        scale = time_axis(axes, got.figures.duration_s)
        fullest = max(lines, key=lambda line: float(line.values.max()))
        for line in [*(each for each in lines[:LINES_SHOWN] if each is not fullest), fullest]:
            most = line is fullest
            axes.plot(line.times_s / scale, line.values, label=f"rank {line.rank}",
                      color=DRAWN["cache"] if most else DRAWN["quiet"],
                      linewidth=1.6 if most else 0.9)  # fmt: skip
        axes.set_ylim(0, 1.05)
        percent_axis(axes.yaxis)
        axes.set_ylabel("of the cache is full")
        axes.grid(axis="y")

    return drawn("cache", 2.2, draw)


def outputs_over_time(got: Gathered) -> str:
    """Draws how many outputs were published, and how many of them were in the output directory."""
    sampled = got.sampled

    def draw(drawing: Drawing) -> None:
        axes = drawing.subplots()
        scale = time_axis(axes, got.figures.duration_s)
        times = sampled.output_times_s / scale
        axes.fill_between(times, sampled.placed, sampled.published, color=DRAWN["quiet"],
                          linewidth=0, alpha=0.5, label="not there yet")  # fmt: skip
        axes.plot(times, sampled.published, color=DRAWN["output"], linewidth=1.6,
                  label="published")  # fmt: skip
        axes.plot(times, sampled.placed, color=DRAWN["ink"], linewidth=1.2,
                  linestyle=(0, (4, 2)), label="in the output directory")  # fmt: skip
        axes.set_ylim(bottom=0)
        axes.set_ylabel("outputs")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.grid(axis="y")
        drawing.legend(loc="outside upper left", ncols=3)

    return drawn("outputs", 2.4, draw)
