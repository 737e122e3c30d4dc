"""Prints the table of a file that bench.py --json wrote, in Markdown.

python tools/bench/markdown.py docs/performance/results.json"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from results import OURS, Report, Result, read_report
from table import SECTIONS, columns, duration, reference, title_of


def _cell(result: Result, name: str) -> str:
    taken = result.times_ns.get(name)
    if taken is None:
        return ""
    base = reference(result)
    return duration(taken) if name in (base, OURS) else f"{result.ratio(base, of=name):.2f}"


def _goal(result: Result) -> str:
    base = reference(result)
    held = [goal.ratio for goal in result.goals if goal.than == base]
    missed = [goal.than for goal in result.missed()] + (["floor"] if result.too_long() else [])
    text = f"{held[0]:g}" if held else ""
    return f"{text} **missed**: {', '.join(missed)}" if missed else text


def _above_floor(result: Result) -> str:
    above = result.above_floor()
    return "" if above is None else f"{above:.2f}"


def section(results: list[Result]) -> Iterator[str]:
    """Yields the lines of one table: times of the reference and FanStore, the ratio, its goal, and
    the other peers."""
    names = columns(results)
    bases = list(dict.fromkeys(reference(result) for result in results))
    others = [name for name in names if name not in (*bases, OURS)]
    head = ["row", *bases, OURS, "ratio", "goal"]
    has_floor = any(result.floor is not None for result in results)
    head += ["times the floor"] if has_floor else []
    head += others
    yield "| " + " | ".join(head) + " |"
    yield "| --- |" + " ---: |" * (len(head) - 1)
    for result in results:
        ratio = f"{result.ratio(reference(result)):.2f}" if OURS in result.times_ns else ""
        row = [title_of(result), *(_cell(result, base) for base in bases), _cell(result, OURS)]
        row += [ratio, _goal(result)]
        row += [_above_floor(result)] if has_floor else []
        row += [_cell(result, name) for name in others]
        yield "| " + " | ".join(row) + " |"
    notes = [f"{title_of(result)}: {result.note}." for result in results if result.note]
    if notes:
        yield ""
        yield from (f"- {note}" for note in notes)


def page(report: Report) -> Iterator[str]:
    """Yields the lines of the page."""
    yield "# Table of figures"
    yield ""
    yield "[Performance](../performance.md) explains the rows and columns."
    yield ""
    yield ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in report.machine.items())
    for kind, title in SECTIONS.items():
        results = [result for result in report.results if result.section == kind]
        if results:
            yield from ("", f"## {title}", "")
            yield from section(results)
    if report.skipped:
        yield from ("", "## Not measured", "")
        yield from (f"- {text}" for text in report.skipped)


if __name__ == "__main__":
    print("\n".join(page(read_report(Path(sys.argv[1])))))
