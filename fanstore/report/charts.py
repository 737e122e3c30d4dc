"""Draws the plots of a report with matplotlib, as SVG texts for its page. The colours are Okabe and
Ito's (2008), which people with any colour vision can distinguish; each source has the same colour
in all plots."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.report.figures import Figures, RankFigures
from fanstore.report.sampled import ORIGINS, Gathered
from fanstore.report.verdict import percent, slow_rank
from fanstore.trace import SOURCES
from fanstore.wording import SOURCE_WORDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


# name: (on a light page, on a dark page)
COLOURS = {
    "ink": ("#1a1a1a", "#e8e8e8"),
    "muted": ("#5c5c5c", "#a8a8a8"),
    "grid": ("#dddddd", "#3a3a3a"),
    "paper": ("#ffffff", "#16181c"),
    "accent": ("#0072b2", "#5ab4f0"),
    "quiet": ("#b4b4b4", "#6a6a6a"),
    "disk": ("#009e73", "#19b88b"),
    "cache": ("#56b4e9", "#56b4e9"),
    "rank": ("#e69f00", "#f0ad1f"),
    "shared": ("#d55e00", "#e8702a"),
    "output": ("#cc79a7", "#d98cb8"),
}
# Stand-in colours for drawing; `themed` replaces each by the name of its colour in the page.
_DRAWN = {f"#01{number:02x}01": name for number, name in enumerate(COLOURS)}
DRAWN = {name: drawn for drawn, name in _DRAWN.items()}


def themed(svg: str) -> str:
    """Returns an SVG text in which colours are replaced by their names in the page's style."""
    for drawn, name in _DRAWN.items():
        svg = svg.replace(drawn, f"var(--{name})")
    return svg


def style_of(dark: bool) -> str:
    """Returns the CSS properties that define the colours of a light or dark page."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in COLOURS.items())


WIDTH_IN = 8.6
_STYLE: Any = {
    "font.family": ["DejaVu Sans"], "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9,
    "xtick.labelsize": 8.5, "ytick.labelsize": 8.5, "legend.fontsize": 8.5,
    "svg.fonttype": "none", "svg.hashsalt": "fanstore", "axes.spines.top": False,
    "axes.spines.right": False, "text.color": DRAWN["ink"], "axes.labelcolor": DRAWN["ink"],
    "axes.edgecolor": DRAWN["muted"], "xtick.color": DRAWN["muted"],
    "ytick.color": DRAWN["muted"], "xtick.labelcolor": DRAWN["ink"],
    "ytick.labelcolor": DRAWN["ink"], "grid.color": DRAWN["grid"], "grid.linewidth": 0.6,
    "axes.axisbelow": True, "legend.frameon": False, "text.parse_math": False,
}  # fmt: skip


def drawn(name: str, height_in: float, draw: Callable[[Drawing], None]) -> str:
    """Calls `draw` with an empty drawing. Returns the result as SVG; ids in it begin with
    `name`."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Drawing

    with matplotlib.rc_context(matplotlib.rcParamsDefault | _STYLE):
        drawing = Drawing(figsize=(WIDTH_IN, height_in), layout="constrained")
        FigureCanvasSVG(drawing)
        draw(drawing)
        made = io.StringIO()
        empty = {key: None for key in ("Date", "Creator", "Format", "Type")}
        drawing.savefig(made, format="svg", transparent=True, metadata=empty)
    svg = made.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r' width="[\d.]+pt"| height="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{name}-", svg)
    return themed(svg)


def time_unit(duration_s: float) -> tuple[float, str]:
    """Returns the unit for an axis of time: its length in seconds, and its name."""
    if duration_s >= 2 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if duration_s >= 300 else (1.0, "seconds")


def time_axis(axes: Axes, duration_s: float) -> float:
    """Labels the x axis as time since the start. Returns the length of its unit in seconds."""
    scale, unit = time_unit(duration_s)
    axes.set_xlim(0, max(duration_s / scale, 1e-9))
    axes.set_xlabel(f"{unit} since the start")
    return scale


def percent_axis(axis: Any) -> None:
    """Shows the numbers of an axis as percent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def steps(edges: Any, values: Any) -> tuple[Any, Any]:
    """Returns the points of a line with steps: it has each value from one edge to the next."""
    return np.repeat(edges, 2)[1:-1], np.repeat(values, 2)


RANKS_SHOWN = 16
LINES_SHOWN = 32
EPOCHS_SHOWN = 24
_ORIGIN_WORDS = {**SOURCE_WORDS, "disk": "this node's own disk"}


def shown_ranks(figures: Figures) -> list[RankFigures]:
    """Returns the ranks that waited most, at most RANKS_SHOWN, in the order of their numbers."""
    waiting = sorted(figures.ranks, key=lambda each: -each.share)[:RANKS_SHOWN]
    return sorted(waiting, key=lambda each: each.rank)


def _present(figures: Figures) -> list[int]:
    """Returns the sources that readers waited for."""
    return [number for number in range(len(SOURCES)) if figures.waited_s()[number] > 0]


def _legend(drawing: Drawing, handles: list[Any], labels: list[str]) -> None:
    if len(handles):
        drawing.legend(handles, labels, loc="outside upper left", ncols=5, handlelength=1.2)


def waits_of_ranks(got: Gathered) -> str:
    """Draws how long each rank waited for each source."""
    figures = got.figures
    ranks = shown_ranks(figures)

    def draw(drawing: Drawing) -> None:
        axes = drawing.subplots()
        names = [f"rank {each.rank}" for each in ranks]
        left = np.zeros(len(ranks))
        handles = []
        for number in _present(figures):
            widths = [
                each.waited_s[number] / each.active_s if each.active_s else 0 for each in ranks
            ]
            color = DRAWN[SOURCES[number]]
            handles.append(axes.barh(names, widths, left=left, color=color, height=0.62))
            left = left + widths
        for place, each in enumerate(ranks):
            end = (left[place], place)
            axes.annotate(percent(each.share), end, (4, 0), textcoords="offset points", va="center")
        if not handles:
            axes.barh(names, left)
        axes.set_xlim(0, max(0.01, 1.12 * float(left.max(initial=0))))
        axes.invert_yaxis()
        percent_axis(axes.xaxis)
        axes.set_xlabel("part of its readers' time that a rank waited")
        axes.grid(axis="x")
        labels = [SOURCE_WORDS[SOURCES[number]] for number in _present(figures)]
        _legend(drawing, handles, labels)

    return drawn("ranks", 1.35 + 0.3 * len(ranks), draw)


def waits_over_time(got: Gathered) -> str:
    """Draws the part of all readers' time that was spent waiting for each source, over time."""
    figures = got.figures

    def draw(drawing: Drawing) -> None:
        axes = drawing.subplots()
        scale = time_axis(axes, figures.duration_s)
        base = np.zeros(len(figures.edges_s) - 1)
        handles = []
        for number in _present(figures):
            top = base + figures.source_shares[number]
            x, upper = steps(figures.edges_s / scale, top)
            lower = np.repeat(base, 2)
            color = DRAWN[SOURCES[number]]
            handles.append(axes.fill_between(x, lower, upper, color=color, linewidth=0))
            base = top
        _epochs(axes, figures, scale)
        axes.set_ylim(0, min(1.0, max(0.02, 1.15 * float(base.max(initial=0)))))
        percent_axis(axes.yaxis)
        axes.set_ylabel("waited, of all readers' time")
        axes.grid(axis="y")
        _legend(drawing, handles, [SOURCE_WORDS[SOURCES[n]] for n in _present(figures)])

    return drawn("time", 2.7, draw)


def _starts(figures: Figures) -> list[float]:
    """Returns when the epochs of the first rank that has epochs begin, in seconds since the
    start."""
    return next((each.epoch_starts_s for each in figures.ranks if each.epoch_starts_s), [])


def has_epochs(figures: Figures) -> bool:
    """Returns whether to mark epochs in plots over time: whether there are several, but not too
    many."""
    return 1 < len(_starts(figures)) <= EPOCHS_SHOWN


def _epochs(axes: Axes, figures: Figures, scale: float) -> None:
    """Marks where the epochs of the first rank begin."""
    if not has_epochs(figures):
        return
    starts = _starts(figures)
    for number, start_s in enumerate(starts, 1):
        axes.axvline(start_s / scale, color=DRAWN["muted"], linewidth=0.8, linestyle=(0, (3, 3)))
        gaps = np.diff([*starts, figures.duration_s]) / max(figures.duration_s, 1e-9)
        if gaps.min() > 0.06:
            at = (start_s / scale, 1.0)
            axes.annotate(f"epoch {number}", at, (3, 2), xycoords=("data", "axes fraction"),
                          textcoords="offset points", va="bottom", color=DRAWN["muted"],
                          size=8)  # fmt: skip


def throughput(got: Gathered) -> str:
    """Draws how many files per second each rank opened."""
    figures = got.figures
    worst = max(figures.ranks, key=lambda each: each.share, default=None)

    def draw(drawing: Drawing) -> None:
        axes = drawing.subplots()
        scale = time_axis(axes, figures.duration_s)
        several = len(figures.ranks) > 1
        for each in figures.ranks[:LINES_SHOWN]:
            if each is not worst:
                axes.plot(*steps(figures.edges_s / scale, each.opens_per_s), color=DRAWN["quiet"],
                          linewidth=0.9, label="other ranks")  # fmt: skip
        if worst is not None:
            most = ", which waited most" * (slow_rank(figures) is worst)
            label = f"rank {worst.rank}{most}"
            axes.plot(*steps(figures.edges_s / scale, worst.opens_per_s), color=DRAWN["accent"],
                      linewidth=1.4, label=label)  # fmt: skip
        _epochs(axes, figures, scale)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("files opened a second")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.grid(axis="y")
        if several:
            handles, labels = axes.get_legend_handles_labels()
            found = dict(zip(reversed(labels), reversed(handles), strict=True))
            _legend(drawing, list(found.values()), list(found))

    return drawn("throughput", 2.6, draw)


def bytes_by_epoch(got: Gathered) -> str:
    """Draws how many bytes of each epoch came from each source."""
    table = got.sampled.epoch_bytes
    assert table is not None
    group = -(-len(table) // EPOCHS_SHOWN)
    starts = np.arange(0, len(table), group)
    grouped = np.add.reduceat(table, starts)
    scale, unit = _byte_unit(float(grouped.sum(axis=1).max()))

    def draw(drawing: Drawing) -> None:
        axes = drawing.subplots()
        names = [str(n + 1) if group == 1 else f"{n + 1}-{n + group}" for n in starts]
        base = np.zeros(len(names))
        handles, labels = [], []
        for number, origin in enumerate(ORIGINS):
            if grouped[:, number].any():
                heights = grouped[:, number] / scale
                color = DRAWN[origin]
                handles.append(axes.bar(names, heights, bottom=base, color=color, width=0.6))
                labels.append(_ORIGIN_WORDS[origin])
                base = base + heights
        axes.set_xlim(-0.75, max(len(names), 4) - 0.25)
        if len(names) > 12:
            axes.tick_params(axis="x", labelsize=7, rotation=60 if group > 1 else 0)
        axes.set_xlabel("epoch" if len(table) > 1 else "epoch (no file came again)")
        axes.set_ylabel(f"{unit} read")
        axes.grid(axis="y")
        _legend(drawing, handles, labels)

    return drawn("bytes", 2.6, draw)


def _byte_unit(most_bytes: float) -> tuple[float, str]:
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if most_bytes >= 1 << power:
            return float(1 << power), unit
    return 1.0, "bytes"
