"""The page of a report: one HTML file that fetches nothing. Needs matplotlib."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fanstore import __version__
from fanstore.report import charts, details
from fanstore.report.advice import Advice
from fanstore.report.colours import style_of
from fanstore.report.files import Wait
from fanstore.report.gathered import Gathered
from fanstore.report.verdict import SOURCE_WORDS, headline, percent
from fanstore.wording import counted, show_bytes


@dataclass(frozen=True)
class Plot:
    """A plot on the page."""

    title: str
    svg: str
    caption: str


def page_of(got: Gathered, advice: list[Advice]) -> str:
    """Returns the page as a text of HTML."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fanstore.report"),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    files = got.files
    return environment.get_template("report.html.j2").render(
        headline=headline(got.figures),
        about=about(got),
        problems=problems(got),
        tiles=_tiles(got),
        advice=advice,
        overview=_overview(got),
        epochs=_epochs(got),
        details=_details(got),
        slowest=files.slowest,
        hottest=files.hottest,
        never=_never(got),
        never_shown=files.never_shown,
        never_more=files.never_count - len(files.never_shown),
        light=style_of(dark=False),
        dark=style_of(dark=True),
        percent=percent,
        duration=duration,
        marked=_marked,
        what=_what,
        version=__version__,
    )


def _marked(sentence: str) -> Any:
    """Returns a sentence for the page, in which options stand out."""
    from markupsafe import Markup, escape

    parts = re.split(r"(--[a-z][a-z-]+)", sentence)
    options = [Markup("<code>{}</code>").format(each) for each in parts[1::2]]
    words = [escape(each) for each in parts[::2]]
    return Markup("").join(
        each for pair in zip(words, [*options, ""], strict=True) for each in pair
    )


def duration(seconds: float) -> str:
    """Returns a time in a unit that suits it."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size * (2 if size > 1 else 1):
            value = seconds / size
            return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{seconds * 1e6:.0f} µs"


def about(got: Gathered) -> str:
    """Says which job it was, where and when."""
    figures = got.figures
    hosts = list(dict.fromkeys(each.host for each in figures.ranks if each.host))
    where = ", ".join(hosts[:4]) + (f" and {len(hosts) - 4} more" if len(hosts) > 4 else "")
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(figures.start_ns / 1e9))
    names = ", ".join(each.name for each in figures.datasets)
    parts = [
        f"Job {_plain(figures.job_id)}" if figures.job_id else "",
        f"{counted(figures.world_size, 'rank')}{f' on {where}' if where else ''}",
        f"dataset {names}" if names else "",
        f"began {began}" if figures.start_ns else "",
        f"took {duration(figures.duration_s)}" if figures.duration_s else "",
    ]
    return " · ".join(part for part in parts if part)


def _plain(text: str) -> str:
    return "".join(each for each in text[:40] if each.isprintable())


def problems(got: Gathered) -> list[str]:
    """Says what the figures lack."""
    figures = got.figures
    found = []
    if figures.problem:
        found.append(
            f"The trace is not whole: {_printable(figures.problem)}. Up to there it is sound."
        )
    if len(figures.ranks) < figures.world_size:
        found.append(
            f"The trace has {len(figures.ranks)} of {counted(figures.world_size, 'rank')}."
        )
    if figures.dropped:
        found.append(
            f"{counted(figures.dropped, 'note')} of single opens and waits were lost; sums are "
            "exact nevertheless, plots over time and tables lack them."
        )
    for entry in figures.datasets:
        if entry.dataset is None:
            found.append(f"Names are missing, for the index is not at hand: {entry.why}.")
    return found


def _printable(text: str) -> str:
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(each for each in text if each.isprintable())


def _tiles(got: Gathered) -> list[tuple[str, str]]:
    figures = got.figures
    tiles = [
        ("files opened", f"{sum(each.opens for each in figures.ranks):,}"),
        ("read", show_bytes(sum(each.read_bytes for each in figures.ranks))),
        ("waited, of readers' time", percent(figures.share())),
        ("epochs", f"{figures.epochs:,}"),
    ]
    if got.files.dataset_files:
        never = got.files.never_count / got.files.dataset_files
        tiles.append(("files never opened", percent(never)))
    return tiles


def _overview(got: Gathered) -> list[Plot]:
    """Returns the plots that come first: who waited, when, and how fast it went."""
    figures = got.figures
    if not figures.active_s():
        return []
    shown, every = len(charts.shown_ranks(figures)), len(figures.ranks)
    some = f"The {shown} ranks of {every} that waited most. " if shown < every else ""
    plots = [
        Plot("Who waited, for what", charts.waits_of_ranks(got), some + _keepers(got)),
        Plot(
            "When programs waited",
            charts.waits_over_time(got),
            "All ranks together."
            + " Dashed lines: where the first rank's epochs begin." * charts.has_epochs(figures),
        ),
        Plot(
            "How fast files were opened",
            charts.throughput(got),
            f"The first {charts.LINES_SHOWN} ranks." if every > charts.LINES_SHOWN else "",
        ),
    ]
    if got.sampled.epoch_bytes is not None and got.sampled.epoch_bytes.any():
        plots.append(
            Plot(
                "Where bytes came from",
                charts.bytes_by_epoch(got),
                "All ranks together; of files elsewhere, bytes as they are stored. Bytes of this "
                "node's disk are reckoned from the part of opens that found their file there.",
            )
        )
    return plots


def _keepers(got: Gathered) -> str:
    """Says for which other rank each rank waited most, where that is known."""
    said = []
    for each in charts.shown_ranks(got.figures):
        known = {keeper: s for keeper, s in each.waited_for_s.items() if keeper >= 0}
        if known and sum(known.values()) > 0.01 * each.active_s:
            keeper = max(known, key=lambda rank: known[rank])
            said.append(f"rank {each.rank} for rank {keeper} ({duration(known[keeper])})")
    return f"Of the waits for other ranks, most were: {', '.join(said[:8])}." if said else ""


def _epochs(got: Gathered) -> dict[str, Any] | None:
    count = got.figures.epochs
    if not count or not got.figures.active_s():
        return None
    group = -(-count // 12)
    starts = range(0, count, group)
    rows = []
    for each in charts.shown_ranks(got.figures):
        shares = each.epoch_shares
        parts = [shares[at : at + group] for at in starts]
        rows.append({"rank": each.rank, "shares": [sum(p) / len(p) for p in parts if p]})
    names = [f"epoch {at + 1}" if group == 1 else f"{at + 1} to {at + group}" for at in starts]
    note = f"Each column is the mean of {group} epochs." if group > 1 else ""
    return {"names": names, "rows": rows, "note": note}


def _details(got: Gathered) -> list[Plot]:
    in_order = [each.in_order for each in got.patterns]
    order = f"{percent(sum(in_order) / len(in_order))}" if in_order else ""
    drawn: list[tuple[bool, str, Callable[[Gathered], str], str]] = [
        (
            bool(got.figures.waits.sum()),
            "How long waits took",
            details.lengths_of_waits,
            "All waits of all programs, counted exactly. Each column is for waits twice as long as "
            "those before it.",
        ),
        (
            bool(got.patterns),
            "In which order files were read",
            details.access_pattern,
            "From top to bottom, the dataset's files in the order of its directories: a line that "
            f"falls is reading in order, a cloud is shuffled. Here {order} of all opens went on to "
            "the next file.",
        ),
        (
            bool(got.sampled.cache),
            "How full the block cache was",
            details.cache_fill,
            "In colour, the rank whose cache was fullest.",
        ),
        (
            bool(len(got.sampled.output_times_s)),
            "Outputs on their way",
            details.outputs_over_time,
            f"An output was in the output directory {duration(got.sampled.delay_s)} after it was "
            "published, on average.",
        ),
    ]
    return [Plot(title, draw(got), caption) for due, title, draw, caption in drawn if due]


def _what(wait: Wait) -> str:
    words = SOURCE_WORDS[wait.source]
    return f"rank {wait.keeper}" if wait.keeper >= 0 else words


def _never(got: Gathered) -> str:
    files = got.files
    if not files.dataset_files:
        return "Unknown: the index of the dataset is not at hand."
    if not files.never_count:
        return f"None: all {counted(files.dataset_files, 'file')} were opened."
    lost = " (or their notes were lost)" if got.figures.dropped else ""
    return (
        f"{files.never_count:,} of {counted(files.dataset_files, 'file')} "
        f"({show_bytes(files.never_bytes)} of {show_bytes(files.dataset_bytes)}){lost}."
    )
