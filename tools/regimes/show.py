"""Shows the figures of all regimes as a table and as a plot."""

from __future__ import annotations

from pathlib import Path

from regime import REGIMES, Measured

# By regime and policy: the figures "measured" and "simulated".
Results = dict[int, dict[str, dict[str, Measured]]]
COLOURS = {"measured": "#c0392b", "simulated": "#2980b9"}


def table(results: Results) -> str:
    """Returns all figures as a table in Markdown."""
    lines = [
        "| dataset | policy | first epoch | later | simulated | measured / simulated "
        "| later / perfect |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for number, ways in results.items():
        perfect_s = ways["perfect"]["measured"].later_s if "perfect" in ways else None
        for name, both in ways.items():
            lines.append(_row(number, name, both["measured"], both["simulated"], perfect_s))
    return "\n".join(lines)


def _row(
    number: int, name: str, measured: Measured, simulated: Measured, perfect_s: float | None
) -> str:
    later_s, expected_s = measured.later_s, simulated.later_s
    cells = [
        f"{number}: {REGIMES[number][0]}", f"`{name}`",
        f"{measured.epochs_s[0]:.2f} s" if measured.epochs_s else "cannot run",
        f"{later_s:.2f} s" if later_s else "",
        f"{expected_s:.2f} s" if expected_s else "cannot run",
        f"{later_s / expected_s:.2f}" if later_s and expected_s else "",
        f"{later_s / perfect_s:.2f}" if later_s and perfect_s else "",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def draw(results: Results, path: Path) -> None:
    """Draws the times of later epochs by policy, measured and simulated side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(results), figsize=(3.2 * len(results), 3.6), layout="constrained", squeeze=False
    )
    for axis, (number, ways) in zip(axes[0], results.items(), strict=True):
        for side, (which, colour) in enumerate(COLOURS.items()):
            heights = [both[which].later_s or 0.0 for both in ways.values()]
            places = [at + 0.4 * side - 0.2 for at in range(len(ways))]
            axis.bar(places, heights, 0.4, label=which, color=colour)
        axis.set_xticks(range(len(ways)), list(ways), rotation=45, ha="right")
        axis.set_title(f"{number}: {REGIMES[number][0]}", fontsize="small")
        axis.grid(axis="y", alpha=0.3)
        axis.set_ylim(bottom=0)
    axes[0][0].set_ylabel("seconds of an epoch")
    axes[0][0].legend(fontsize="small")
    pyplot.rcParams["svg.hashsalt"] = "regimes"
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
