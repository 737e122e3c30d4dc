"""The plots of a report, as SVG texts for its page. Needs matplotlib."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.report.colours import DRAWN, themed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

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
    """Returns what `draw` puts into an empty drawing, as SVG with ids that begin with `name`."""
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
    """Returns what seconds are divided by for an axis, and the name of that unit."""
    if duration_s >= 2 * 3600:
        return 3600.0, "hours"
    return (60.0, "minutes") if duration_s >= 300 else (1.0, "seconds")


def time_axis(axes: Axes, duration_s: float) -> float:
    """Labels the x axis as time since the start; returns what seconds are divided by."""
    scale, unit = time_unit(duration_s)
    axes.set_xlim(0, max(duration_s / scale, 1e-9))
    axes.set_xlabel(f"{unit} since the start")
    return scale


def percent_axis(axis: Any) -> None:
    """Writes the numbers of an axis as percent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))


def steps(edges: Any, values: Any) -> tuple[Any, Any]:
    """Returns the corners of a line that has each value from one edge to the next."""
    return np.repeat(edges, 2)[1:-1], np.repeat(values, 2)
