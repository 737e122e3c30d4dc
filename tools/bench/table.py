"""Prints the tables of a file that bench.py --json wrote, in Markdown, as bench.py itself does: a
line for each row, with the times of the reference and of FanStore, their ratio and its goal, and
the ratios of the other peers.

    python tools/bench/table.py docs/performance/results.json"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from results import DIRECTORY, OURS, Report, Result, read_report

SECTIONS = {
    "warm": "Warm", "cold": "Cold", "compressed": "Compressed packs", "preparing": "Preparing",
    "start": "Start of a job", "outside": "Outside the prefix",
    "ranks": "Ranks of one machine",
    "remote": "Remote reads", "storage": "Datasets that are here in part",
    "outputs": "Outputs", "outputs-ranks": "Outputs whose home is another rank",
    "coordinated": "Coordinated preparation", "loading": "Loaders of torch",
    "pieces": "Pieces of a remote file", "python": "From Python, without a job",
    "large": "Large files",
    "many": "A million files, in random order", "most": "Names of FanStore's own",
}  # fmt: skip


def duration(ns: float) -> str:
    """Returns a time as text with three digits."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 1000 * size else f"{ns / size:,.0f} {unit}"
    return f"{ns:.3g} ns"


def reference(result: Result) -> str:
    """Returns the peer to whose time a row's ratios refer: the directory, else the peer of the
    first goal."""
    if DIRECTORY in result.times_ns:
        return DIRECTORY
    others = [goal.than for goal in result.goals if goal.than in result.times_ns]
    return (others or [name for name in result.times_ns if name != OURS] or [OURS])[0]


def title_of(result: Result) -> str:
    """Returns the row's title with its processes and threads."""
    parts = [result.title]
    parts += [f"{result.processes} processes"] if result.processes > 1 else []
    parts += [f"{result.threads} threads"] if result.threads > 1 else []
    return ", ".join(parts)


def _cell(result: Result, name: str) -> str:
    """Returns the time of the reference and of FanStore, and the ratio of another peer."""
    if name not in result.times_ns:
        return ""
    base = reference(result)
    is_time = name in (base, OURS)
    return duration(result.times_ns[name]) if is_time else f"{result.ratio(base, of=name):.2f}"


def _goal(result: Result) -> str:
    """Returns the goal against the reference, that on the floor, and what was missed."""
    base = reference(result)
    parts = [f"{goal.ratio:g}" for goal in result.goals if goal.than == base][:1]
    if result.floor is not None and result.floor.most_ns is not None:
        parts.append(f"<= {duration(result.floor.most_ns)}")
    missed = [goal.than for goal in result.missed()] + (["floor"] if result.too_long() else [])
    if missed:
        parts.append(f"**missed**: {', '.join(missed)}")
    return " ".join(parts)


def _above_floor(result: Result) -> str:
    """Returns how many times its floor a row took, and what that is."""
    if result.floor is None:
        return ""
    return f"{result.above_floor():.2f} ({result.floor.words}: {duration(result.floor.ns)})"


def _rows(results: Sequence[Result]) -> Iterator[list[str]]:
    """Yields the cells of the head, then those of each row."""
    bases = list(dict.fromkeys(reference(result) for result in results))
    named = dict.fromkeys(name for result in results for name in result.times_ns)
    others = [name for name in named if name not in (*bases, OURS)]
    has_floor = any(result.floor is not None for result in results)
    floors = ["times the floor"] if has_floor else []
    yield ["row", *bases, OURS, "ratio", "goal", *floors, *others]
    for result in results:
        ratio = f"{result.ratio(reference(result)):.2f}" if OURS in result.times_ns else ""
        floors = [_above_floor(result)] if has_floor else []
        times = [_cell(result, name) for name in (*bases, OURS)]
        rest = [_cell(result, name) for name in others]
        yield [title_of(result), *times, ratio, _goal(result), *floors, *rest]


def _section(results: Sequence[Result]) -> Iterator[str]:
    """Yields the lines of one table, and its notes."""
    head, *rows = _rows(results)
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    below = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    for first, *rest in (head, below, *rows):
        right = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        yield f"| {' | '.join([first.ljust(widths[0]), *right])} |"
    notes = [f"- {title_of(result)}: {result.note}." for result in results if result.note]
    yield from ["", *notes] if notes else []


def lines(report: Report) -> Iterator[str]:
    """Yields the lines of all tables."""
    yield ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in report.machine.items())
    for section, title in SECTIONS.items():
        results = [result for result in report.results if result.section == section]
        if results:
            yield from ("", f"## {title}", "", *_section(results))
    if report.skipped:
        yield from ("", "## Not measured", "", *(f"- {text}" for text in report.skipped))


def missed_lines(report: Report) -> list[str]:
    """Returns a line for each goal that was missed."""
    ratios = [
        f"{r.key}: {r.ratio(goal.than):.2f} times {goal.than}, the goal is {goal.ratio:.2f}"
        for r in report.results for goal in r.missed()
    ]  # fmt: skip
    return ratios + [
        f"{r.key}: {duration(r.times_ns[OURS])}, the goal is {duration(r.floor.most_ns)}"
        for r in report.results
        if r.floor is not None and r.floor.most_ns is not None and r.too_long()
    ]


if __name__ == "__main__":
    print("\n".join(lines(read_report(Path(sys.argv[1])))))
