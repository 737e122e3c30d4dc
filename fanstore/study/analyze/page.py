"""The page of an analysis: one HTML file that loads nothing else. Needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fanstore import __version__
from fanstore.arrays import np
from fanstore.report.charts import DRAWN, drawn, percent_axis, style_of
from fanstore.report.templating import template
from fanstore.study.analyze.analysis import Analysis
from fanstore.study.analyze.gains import Gain
from fanstore.study.analyze.prediction import Hardware, doubts, lines, predict

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

WORDS = {
    "ingest": "training consumes (G)", "prepare": "is prepared (P)",
    "storage": "is fetched from storage (S)", "cache": "is fetched from memory (C)",
    "job": "the job as it is",
}  # fmt: skip
_COLOURS = {"ingest": "ink", "prepare": "rank", "fetch": "shared", "speed": "accent"}


def page_of(analysis: Analysis, gains: Sequence[Gain]) -> str:
    """Returns the HTML text of the page."""
    first, *others = lines(analysis)
    complete = bool(gains)
    return template("fanstore.study.analyze", "analysis.html.j2").render(
        headline=first,
        sentences=others,
        doubts=doubts(analysis),
        rates=[(WORDS[name], analysis.rates[name]) for name in WORDS if name in analysis.rates],
        gains=gains,
        by_cache=_by_cache(analysis) if complete else "",
        by_cores=_by_cores(analysis) if complete else "",
        light=style_of(dark=False),
        dark=style_of(dark=True),
        version=__version__,
    )


def _by_cache(analysis: Analysis) -> str:
    """Draws the speed against the part of the dataset that is cached (the paper's figure 11)."""
    parts = np.linspace(0, 1, 101)
    dataset_bytes = analysis.samples * analysis.sample_bytes
    found = [predict(analysis, Hardware(round(part * dataset_bytes))) for part in parts]

    def draw(drawing: Drawing) -> None:
        axes = drawing.subplots()
        speeds = [each.samples_per_s for each in found]
        top = 1.6 * max(max(speeds), analysis.of("prepare"))
        axes.plot(parts, [each.fetch for each in found], color=DRAWN["shared"], label="fetches F")
        _levels(axes, analysis, parts, ("prepare", "ingest"))
        axes.plot(parts, speeds, color=DRAWN["accent"], linewidth=3, label="the job")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, top)
        percent_axis(axes.xaxis)
        _finish(drawing, axes, "part of the dataset in the cache")

    return drawn("cache", 3.2, draw)


def _by_cores(analysis: Analysis) -> str:
    """Draws the speed against the cores of a node, with no cache and with all cached (figure 7)."""
    from matplotlib.ticker import MaxNLocator

    wanted = predict(analysis, Hardware()).min_cores or analysis.cores
    cores = np.arange(1, 2 * max(wanted, analysis.cores) + 1)
    dataset_bytes = math.ceil(analysis.samples * analysis.sample_bytes)

    def draw(drawing: Drawing) -> None:
        axes = drawing.subplots()
        for cache_bytes, label, style in (
            (0, "no cache", "--"),
            (dataset_bytes, "all cached", "-"),
        ):
            settings = [Hardware(cache_bytes, int(count)) for count in cores]
            speeds = [predict(analysis, setting).samples_per_s for setting in settings]
            axes.plot(cores, speeds, style, color=DRAWN["accent"], label=f"the job, {label}")
        _levels(axes, analysis, cores, ("ingest",))
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        _finish(drawing, axes, "cores of a node")

    return drawn("cores", 3.2, draw)


def _levels(axes: Any, analysis: Analysis, along: Any, names: Sequence[str]) -> None:
    """Draws rates that do not depend on the x axis, as lines with their intervals."""
    short = {"prepare": "preparation P", "ingest": "training G"}
    for name in names:
        if name not in analysis.rates:
            continue
        rate, color = analysis.rates[name], DRAWN[_COLOURS[name]]
        axes.plot(along[[0, -1]], [rate.samples_per_s] * 2, color=color, label=short[name])
        axes.fill_between(along[[0, -1]], rate.low, rate.high, color=color, alpha=0.15, linewidth=0)


def _finish(drawing: Drawing, axes: Any, what: str) -> None:
    axes.set_xlabel(what)
    axes.set_ylabel("samples/s")
    axes.grid()
    handles, labels = axes.get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper left", ncols=4, handlelength=1.6)
