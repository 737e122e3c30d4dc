"""Prints the table: a line for each row, with ratios to the time in the first column."""

from __future__ import annotations

from collections.abc import Iterator

from results import DIRECTORY, OURS, Goal, Report, Result

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
TITLE_WIDTH, CELL_WIDTH = 36, 16


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


def columns(results: list[Result]) -> list[str]:
    """Returns all peers in the rows: the references first, then FanStore, then others."""
    first = dict.fromkeys(reference(result) for result in results)
    names = dict.fromkeys(name for result in results for name in result.times_ns)
    order = [*first, OURS, *names]
    return list(dict.fromkeys(order))


def cells(result: Result, names: list[str]) -> Iterator[str]:
    base = reference(result)
    for name in names:
        taken = result.times_ns.get(name)
        if taken is None:
            yield "-"
        elif name == base:
            yield duration(taken)
        elif name == OURS:
            yield f"{duration(taken)} {result.ratio(base):.2f}"
        else:
            yield f"{result.ratio(base, of=name):.2f}"


def floor_text(result: Result) -> str:
    """Returns how many times its floor a row took, in words; "" if it has no floor."""
    if result.floor is None:
        return ""
    return f"  {result.above_floor():.2f} x ({result.floor.words}: {duration(result.floor.ns)})"


def goal_text(goal: Goal, result: Result) -> str:
    """Returns a sentence about a goal that was missed."""
    return (
        f"{result.key}: {result.ratio(goal.than):.2f} times {goal.than}, "
        f"the goal is {goal.ratio:.2f}"
    )


def verdict(result: Result) -> str:
    """Returns the goal against the reference, and the peers that were faster than allowed."""
    base = reference(result)
    held = [goal.ratio for goal in result.goals if goal.than == base]
    text = f">= {held[0]:.2f}" if held else ""
    missed = [goal.than for goal in result.missed()]
    if result.floor is not None and result.floor.most_ns is not None:
        text = f"{text} <= {duration(result.floor.most_ns)}".lstrip()
        missed += ["floor"] if result.too_long() else []
    return f"{text}  MISSED: {', '.join(missed)}" if missed else text


def section_lines(results: list[Result]) -> Iterator[str]:
    names = columns(results)
    width = max([TITLE_WIDTH, *(len(title_of(result)) + 2 for result in results)])
    widths = [max(CELL_WIDTH, len(name) + 2) for name in names]
    yield " " * width + "".join(f"{n:>{w}}" for n, w in zip(names, widths, strict=True)) + "  goal"
    for result in results:
        row = "".join(f"{c:>{w}}" for c, w in zip(cells(result, names), widths, strict=True))
        note = f"  ({result.note})" if result.note else ""
        yield f"{title_of(result):{width}}{row}  {verdict(result)}{floor_text(result)}{note}"


def lines(report: Report) -> Iterator[str]:
    """Yields the lines of the table."""
    for section, title in SECTIONS.items():
        results = [result for result in report.results if result.section == section]
        if results:
            yield f"{title} (time; ratio of the first column's time to each other's)"
            yield from section_lines(results)
            yield ""
    if "floors" in report.machine:
        yield f"floors: {report.machine['floors']}"
    for text in report.skipped:
        yield f"not measured: {text}"


def missed_lines(report: Report) -> list[str]:
    """Returns a line for each goal that was missed."""
    directory = [goal_text(goal, r) for r in report.results for goal in r.missed()]
    return directory + [
        f"{r.key}: {duration(r.times_ns[OURS])}, the goal is {duration(r.floor.most_ns)}"
        for r in report.results
        if r.floor is not None and r.floor.most_ns is not None and r.too_long()
    ]
