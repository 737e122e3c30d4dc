"""A simulation as tables for people: times and steps in 80 columns, and sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from fanstore.simulate.results import Outcome, Simulation
from fanstore.wording import counted, show_bytes

_TIMES = ("policy", "first epoch", "median", "total", "stall", "memory")
_STEPS = ("policy", "samples/s", "bytes/s", "steps", "slow", "warm-up")
_SOURCES = ("policy", "loaded from")
_CACHE = "min. cache"

_Row = tuple[str, ...]


def show_s(seconds: float) -> str:
    """Returns a time for people: in seconds, from two hours on in hours."""
    if seconds >= 7200:
        return f"{seconds / 3600:,.2f} h"
    return f"{seconds:,.2f} s" if seconds < 1000 else f"{seconds:,.0f} s"


def lines_of(
    simulation: Simulation, min_caches: Mapping[str, int | str] | None = None
) -> list[str]:
    """Returns the lines of three tables (times, steps, sources) of the policies that can run, and
    then why the others cannot. min_caches: from min_cache.py, one more column."""
    policies = simulation.policies.items()
    ran = {name: each for name, each in policies if isinstance(each, Outcome)}
    reasons = {name: each for name, each in policies if isinstance(each, str)}
    head = (
        f"{counted(simulation.files, 'file')}, {show_bytes(simulation.dataset_bytes)}; "
        f"{counted(simulation.ranks, 'rank')}, {counted(simulation.epochs, 'epoch')}; "
        f"an epoch takes {show_s(simulation.lower_bound_s)} or more"
    )
    lines = [head, ""]
    if ran:
        lines += _aligned([_TIMES, *(_times(name, each) for name, each in ran.items())])
        lines += ["", *_aligned(_steps(ran, min_caches))]
        sources = [(name, _sources(each)) for name, each in ran.items()]
        lines += ["", *_aligned([_SOURCES, *sources])]
    if ran and reasons:
        lines.append("")
    return [*lines, *(f"{name} cannot run: {reason}" for name, reason in reasons.items())]


def _times(name: str, outcome: Outcome) -> _Row:
    return (
        name,
        show_s(outcome.first_epoch_s),
        show_s(median(outcome.epochs_s)),
        show_s(outcome.total_s),
        f"{100 * outcome.stall_share:.1f} %",
        show_bytes(outcome.memory_max_bytes),
    )


def _steps(ran: Mapping[str, Outcome], caches: Mapping[str, int | str] | None) -> list[_Row]:
    rows: list[_Row] = [_STEPS]
    for name, outcome in ran.items():
        steps = outcome.steps
        rows.append(
            (
                name,
                f"{outcome.samples_per_s:,.{0 if outcome.samples_per_s >= 10 else 2}f}",
                show_bytes(outcome.bytes_per_s),
                f"{steps.count:,}",
                f"{steps.slow:,}",
                f"{steps.warm_up:,}",
            )
        )
    if caches is None:
        return rows
    column = [_CACHE, *(_cache(caches[name]) for name in ran)]
    return [(*row, cell) for row, cell in zip(rows, column, strict=True)]


def _cache(found: int | str) -> str:
    return show_bytes(found) if isinstance(found, int) else "-"


def _sources(outcome: Outcome) -> str:
    shares = {source: share for source, share in outcome.source_shares.items() if share > 0}
    sources = [f"{source} {100 * share:.1f} %" for source, share in shares.items()]
    if outcome.covered < 1:
        sources.append(f"(reads {100 * outcome.covered:.1f} % of the dataset)")
    return ", ".join(sources)


def _aligned(rows: Sequence[_Row]) -> list[str]:
    """Returns rows as lines: numbers to the right, names and sources to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    texts = (0, 1) if rows[0] == _SOURCES else (0,)
    return [
        "  ".join(
            cell.ljust(width) if number in texts else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
