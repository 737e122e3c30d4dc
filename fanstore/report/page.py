"""The page of a report: one HTML file that loads nothing else. Needs matplotlib."""

from __future__ import annotations

import re
import time
from typing import Any

from fanstore import __version__
from fanstore.report import charts
from fanstore.report.advice import Advice
from fanstore.report.charts import style_of
from fanstore.report.files import Wait
from fanstore.report.foreseen import sentences
from fanstore.report.sampled import Gathered
from fanstore.report.sections import in_detail, overview
from fanstore.report.templating import template
from fanstore.report.verdict import headline, percent
from fanstore.wording import SOURCE_WORDS, counted, duration, show_bytes


def page_of(got: Gathered, advice: list[Advice]) -> str:
    """Returns the HTML text of the page."""
    files = got.files
    return template("fanstore.report", "report.html.j2").render(
        headline=headline(got.figures),
        about=about(got),
        problems=problems(got),
        tiles=_tiles(got),
        advice=advice,
        overview=overview(got),
        epochs=_epochs(got),
        foreseen=sentences(got.foreseen),
        details=in_detail(got),
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
    """Returns a sentence for the page in which options are marked as code."""
    from markupsafe import Markup, escape

    parts = re.split(r"(--[a-z][a-z-]+)", sentence)
    options = [Markup("<code>{}</code>").format(each) for each in parts[1::2]]
    words = [escape(each) for each in parts[::2]]
    return Markup("").join(
        each for pair in zip(words, [*options, ""], strict=True) for each in pair
    )


def about(got: Gathered) -> str:
    """Returns a line about the job: its id, ranks, hosts, datasets and times."""
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
    """Returns sentences about data that is missing in the figures."""
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
            found.append(f"Names are missing, because the index cannot be read: {entry.why}.")
    return found


def _printable(text: str) -> str:
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(each for each in text if each.isprintable())


def _tiles(got: Gathered) -> list[tuple[str, str]]:
    figures = got.figures
    tiles = [
        ("files opened", f"{sum(each.opens for each in figures.ranks):,}"),
        ("read", show_bytes(sum(each.read_bytes for each in figures.ranks))),
        ("time waited", percent(figures.share())),
        ("epochs", f"{figures.epochs:,}"),
    ]
    if got.files.dataset_files:
        never = got.files.never_count / got.files.dataset_files
        tiles.append(("files never opened", percent(never)))
    if got.buckets:
        requests = counted(got.buckets["requests"], "request")
        tiles.append(("from buckets", f"{show_bytes(got.buckets['bytes'])}, {requests}"))
    return tiles


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


def _what(wait: Wait) -> str:
    words = SOURCE_WORDS[wait.source]
    return f"rank {wait.keeper}" if wait.keeper >= 0 else words


def _never(got: Gathered) -> str:
    files = got.files
    if not files.dataset_files:
        return "Unknown: the index of the dataset cannot be read."
    if not files.never_count:
        return f"None: all {counted(files.dataset_files, 'file')} were opened."
    lost = " (or their notes were lost)" if got.figures.dropped else ""
    return (
        f"{files.never_count:,} of {counted(files.dataset_files, 'file')} "
        f"({show_bytes(files.never_bytes)} of {show_bytes(files.dataset_bytes)}){lost}."
    )
