"""Draws results of simulations, like figures 8 and 9 of NoPFS (Dryden et al. 2021)."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore.atomic import check_free, whole_file
from fanstore.errors import UsageError
from fanstore.study.simulate.results import PolicyOutcome, Simulation, show_s
from fanstore.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# For each case of a sweep, its changed values and its results.
Results = Sequence[tuple[dict[str, str], Simulation]]

_SUFFIXES = (".svg", ".png")
# Colours that people with any colour vision can distinguish (Okabe and Ito 2008).
_OWN = ("#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#F0E442")
_SHARED, _STARTUP, _NO_SOURCE = "#D55E00", "#999999", "#DDDDDD"
_LINES = ("#000000", *_OWN[:4], _SHARED, "#E69F00")
_MARKS = "osD^vP*X"


def check(path: Path, cases: Sequence[dict[str, str]]) -> None:
    """Raises UsageError if results cannot be drawn to `path`: if its suffix is neither .svg nor
    .png, its folder cannot be written, it exists and is no regular file, matplotlib is missing, or
    the cases of a sweep differ in more than two names."""
    if path.suffix not in _SUFFIXES:
        allowed = " and ".join(_SUFFIXES)
        raise UsageError(f"--plot {path}: allowed are names that end in {allowed}")
    if len(names := _swept(cases)) > 2:
        raise UsageError(
            f"--plot {path}: {', '.join(names)} are swept; allowed are two names with several "
            "values each"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"--plot {path}: {path.parent} is no folder that can be written to")
    check_free(path, force=True)
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(
            "--plot needs matplotlib, which is not installed: pip install 'fanstore-fs[plots]'"
        )


def _swept(cases: Sequence[dict[str, str]]) -> list[str]:
    """Returns the names that have several values in a sweep."""
    return [name for name in cases[0] if len({case[name] for case in cases}) > 1]


def draw(path: Path, title: str, results: Results) -> None:
    """Draws the results of a sweep, at least one case, to a file; its suffix decides the format. An
    existing file is replaced only when the new one is complete.

    A single case is drawn as a bar for each policy, as in figure 8. A sweep of one name is drawn as
    a line for each policy, of two names as a map for each, as in figure 9. Policies that cannot run
    are left out. Raises UsageError if no policy can run, OSError if the file cannot be written."""
    import matplotlib
    from matplotlib.figure import Figure

    names = _swept([case for case, _ in results])
    ran = [name for name in results[0][1].policies if any(_outcome(s, name) for _, s in results)]
    if not ran:
        raise UsageError(f"--plot {path}: no policy can run, and so there is nothing to draw")
    figure = Figure(layout="constrained")
    with matplotlib.rc_context({"font.size": 9, "svg.fonttype": "none", "hatch.linewidth": 0.6}):
        if not names:
            figure.set_size_inches(8, 1.9 + 0.32 * len(ran))
            _bars(figure.subplots(), results[0][1], ran)
        elif len(names) == 1:
            figure.set_size_inches(8, 4.5)
            _lines(figure.subplots(), results, names[0], ran)
        else:
            columns = min(len(ran), 3)
            rows = -(-len(ran) // columns)
            across, down = (len({case[name] for case, _ in results}) for name in names)
            size = 1 + columns * max(2.2, 0.8 * across), 0.8 + rows * (0.9 + 0.45 * down)
            figure.set_size_inches(*size)
            axes = figure.subplots(rows, columns, squeeze=False)
            _maps(list(axes.ravel()), results, names, ran)
        figure.suptitle(title, size=10)
        with whole_file(path, force=True) as stream:
            figure.savefig(stream, dpi=100, format=path.suffix[1:])


def _outcome(simulation: Simulation, name: str) -> PolicyOutcome | None:
    found = simulation.policies[name]
    return found if isinstance(found, PolicyOutcome) else None


def _unit(longest_s: float) -> tuple[float, str]:
    """Returns the unit for an axis of time: its length in seconds, and its name."""
    return (3600.0, "hours") if longest_s >= 7200 else (1.0, "seconds")


def _bars(axes: Axes, simulation: Simulation, names: list[str]) -> None:
    """Draws the time of each policy; the time of its epochs is divided like the bytes that it
    reads."""
    ran = {name: each for name in names if (each := _outcome(simulation, name))}
    longest_s = max(each.total_s for each in ran.values())
    scale, unit = _unit(longest_s)
    sources = list(dict.fromkeys(source for each in ran.values() for source in each.source_bytes))
    labels = ["loaded before the job", *sources, "nobody waits for data"]
    parts_s = {label: [_part_s(each, label) for each in ran.values()] for label in labels}
    left = [0.0] * len(ran)
    for label, widths_s in parts_s.items():
        if not any(widths_s):
            continue
        widths = [width_s / scale for width_s in widths_s]
        axes.barh(list(ran), widths, left=left, label=label, **_fill(label, sources))
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for place, each in enumerate(ran.values()):
        part = f" ({100 * each.covered:.0f} % of the data)" if each.covered < 1 else ""
        axes.annotate(show_s(each.total_s) + part, (left[place], place), (4, 0), va="center",
                      textcoords="offset points")  # fmt: skip
    bound = simulation.lower_bound_s * simulation.epochs / scale
    axes.axvline(bound, color="black", linestyle="--", linewidth=1, label="lower bound, S / (N c)")
    axes.set_xlim(0, 1.25 * max(bound, longest_s / scale))
    axes.invert_yaxis()
    epochs = counted(simulation.epochs, "epoch")
    axes.set_xlabel(f"{unit} for {epochs}, divided like the bytes that are read")
    axes.figure.legend(loc="outside lower center", ncols=4, frameon=False)


def _part_s(outcome: PolicyOutcome, label: str) -> float:
    """Returns the part of a policy's time that its bar shows in the colour of a label."""
    if label == "loaded before the job":
        return outcome.startup_s
    epochs_s = outcome.total_s - outcome.startup_s
    if label == "nobody waits for data":
        return 0.0 if any(outcome.source_bytes.values()) else epochs_s
    return epochs_s * outcome.source_shares.get(label, 0.0)


def _fill(label: str, sources: list[str]) -> dict[str, Any]:
    """Returns the fill of a source: a colour; for other nodes, the colour of the storage class with
    hatching."""
    fixed = {
        "loaded before the job": _STARTUP,
        "nobody waits for data": _NO_SOURCE,
        "shared": _SHARED,
    }
    if label in fixed:
        return {"color": fixed[label]}
    own = label.removeprefix("remote ")
    colour = _OWN[sources.index(own) % len(_OWN)]
    if own == label:
        return {"color": colour}
    return {"facecolor": "white", "edgecolor": colour, "hatch": "/////", "linewidth": 0}


def _lines(axes: Axes, results: Results, name: str, names: list[str]) -> None:
    """Draws the time of each policy for each value of the swept name. Policies that take equally
    long share a line."""
    values = [case[name] for case, _ in results]
    times_s = _together({policy: _times_s(results, policy) for policy in names})
    longest_s = max(time for row in times_s.values() for time in row)
    scale, unit = _unit(longest_s)
    for number, (policy, row) in enumerate(times_s.items()):
        axes.plot(values, [time / scale for time in row], label=policy,
                  color=_LINES[number % len(_LINES)], marker=_MARKS[number % len(_MARKS)],
                  linestyle=("-", "--")[number // len(_LINES) % 2], markersize=5,
                  linewidth=1.2)  # fmt: skip
    axes.set_xlabel(name)
    axes.set_ylabel(f"{unit} for the whole job")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", linewidth=0.4)
    axes.figure.legend(loc="outside right upper", frameon=False)


def _together(times_s: dict[str, list[float]]) -> dict[str, list[float]]:
    """Returns rows of times, where policies whose times look the same in a plot share one row and
    label."""
    labels: dict[str, str] = {}  # by the first policy of each row
    for policy, row in times_s.items():
        same = (first for first in labels if _looks_like(times_s[first], row))
        first = next(same, policy)
        labels[first] = f"{labels[first]},\n{policy}" if first in labels else policy
    return {label: times_s[first] for first, label in labels.items()}


def _looks_like(row: list[float], other: list[float]) -> bool:
    return all(
        abs(one - two) <= 0.005 * one or (isnan(one) and isnan(two))
        for one, two in zip(row, other, strict=True)
    )


def _times_s(results: Results, policy: str) -> list[float]:
    """Returns the time of each case; NaN if the policy cannot run."""
    found = (_outcome(simulation, policy) for _, simulation in results)
    return [each.total_s if each else float("nan") for each in found]


def _maps(axes: Sequence[Axes], results: Results, names: list[str], policies: list[str]) -> None:
    """Draws the time of each policy for each pair of values, and how much it then reads from shared
    storage. Darker means longer."""
    across, down = (list(dict.fromkeys(case[name] for case, _ in results)) for name in names)
    of_all = [time for policy in policies for time in _times_s(results, policy) if not isnan(time)]
    for each, policy in zip(axes, policies, strict=False):
        rows = [[float("nan")] * len(across) for _ in down]
        for case, simulation in results:
            column, row = across.index(case[names[0]]), down.index(case[names[1]])
            if (found := _outcome(simulation, policy)) is None:
                each.annotate("cannot\nrun", (column, row), ha="center", va="center", size=7)
                continue
            rows[row][column] = found.total_s
            each.annotate(_cell(found), (column, row), ha="center", va="center", size=7)
        each.imshow(rows, cmap="YlOrBr", vmin=0.5 * min(of_all), vmax=1.6 * max(of_all),
                    aspect="auto")  # fmt: skip
        each.set_title(policy, size=9)
        each.set_xticks(range(len(across)), across)
        each.set_yticks(range(len(down)), down)
        each.set_xlabel(names[0])
        each.set_ylabel(names[1])
    for each in axes[len(policies) :]:
        each.set_axis_off()


def _cell(outcome: PolicyOutcome) -> str:
    shared = 100 * outcome.source_shares.get("shared", 0.0)
    part = f"\n{100 * outcome.covered:.0f} % of data" if outcome.covered < 1 else ""
    return f"{show_s(outcome.total_s)}\n{shared:.0f} % shared{part}"
