"""The page of an analysis: one HTML file that loads nothing else. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore import __version__
from fanstore.arrays import np
from fanstore.report.charts import DRAWN, drawn, percent_axis, style_of
from fanstore.report.templating import template
from fanstore.study.analyze.analysis import NAMES, Analysis
from fanstore.study.analyze.prediction import Hardware, predict
from fanstore.study.analyze.verdict import cold, lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def page_of(analysis: Analysis) -> str:
    """Returns the HTML text of the page."""
    first, *others = lines(analysis)
    return template("fanstore.study.analyze", "analysis.html.j2").render(
        headline=first,
        sentences=others,
        doubts=analysis.notes,
        rates=[(NAMES[name], analysis.rates[name]) for name in NAMES if name in analysis.rates],
        by_kept=_by_kept(analysis) if cold(analysis) else "",
        light=style_of(dark=False),
        dark=style_of(dark=True),
        version=__version__,
    )


def _by_kept(analysis: Analysis) -> str:
    """Draws the speed against the part of the dataset that is kept (the paper's figure 11)."""
    parts = np.linspace(0, 1, 101)
    sizes = [round(part * analysis.samples * analysis.sample_bytes) for part in parts]
    settings = {
        "on disks": [Hardware(local_bytes=size) for size in sizes],
        "in the block cache": [Hardware(cache_bytes=size) for size in sizes],
    }

    def draw(drawing: Drawing) -> None:
        axes = drawing.subplots()
        for (label, row), style in zip(settings.items(), ("-", "--"), strict=True):
            speeds = [predict(analysis, each).samples_per_s for each in row]
            axes.plot(parts, speeds, style, color=DRAWN["accent"], linewidth=3, label=label)
        for name, colour in (("prepare", DRAWN["rank"]), ("ingest", DRAWN["ink"])):
            if rate := analysis.rates.get(name):
                axes.axhline(rate.samples_per_s, color=colour, label=NAMES[name])
                axes.axhspan(rate.low, rate.high, color=colour, alpha=0.15, linewidth=0)
        axes.set(xlim=(0, 1), ylabel="samples/s", xlabel="part of the dataset that the nodes keep")
        axes.set_ylim(bottom=0)
        percent_axis(axes.xaxis)
        axes.grid()
        drawing.legend(loc="outside upper left", ncols=4, handlelength=1.6)

    return drawn("kept", 3.2, draw)
