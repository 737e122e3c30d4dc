"""A simulation as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fanstore.simulate.results import Outcome, Simulation
from fanstore.wording import show_bytes

_HEAD = ("policy", "first epoch", "median", "total", "stall", "memory", "loaded from")


def show_s(seconds: float) -> str:
    """Returns a time for people: seconds, above two hours hours."""
    if seconds >= 7200:
        return f"{seconds / 3600:,.2f} h"
    return f"{seconds:,.2f} s" if seconds < 1000 else f"{seconds:,.0f} s"


def lines_of(simulation: Simulation) -> list[str]:
    """Returns the lines of a table: the policies that can run, then why the others cannot."""
    rows: list[tuple[str, ...]] = [_HEAD]
    reasons = []
    for name, outcome in simulation.policies.items():
        if isinstance(outcome, str):
            reasons.append(f"{name} cannot run: {outcome}")
        else:
            rows.append(_row(name, outcome))
    head = (
        f"{simulation.files:,} files, {show_bytes(simulation.dataset_bytes)}; "
        f"{simulation.ranks} ranks, {simulation.epochs} epochs; "
        f"an epoch takes {show_s(simulation.lower_bound_s)} or more"
    )
    return [head, "", *(_aligned(rows) if len(rows) > 1 else []), *reasons]


def _row(name: str, outcome: Outcome) -> tuple[str, ...]:
    shares = {source: share for source, share in outcome.source_shares.items() if share > 0}
    sources = [f"{source} {100 * share:.1f} %" for source, share in shares.items()]
    if outcome.covered < 1:
        sources.append(f"(reads {100 * outcome.covered:.1f} % of the dataset)")
    return (
        name,
        show_s(outcome.first_epoch_s),
        show_s(median(outcome.epochs_s)),
        show_s(outcome.total_s),
        f"{100 * outcome.stall_share:.1f} %",
        show_bytes(outcome.memory_max_bytes),
        ", ".join(sources),
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Numbers stand to the right, the first and last columns to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number in (0, len(row) - 1) else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
