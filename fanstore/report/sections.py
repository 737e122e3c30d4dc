"""The plots on the page of a report, with titles and captions, in the order of the page. Needs
matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fanstore.report import charts, details
from fanstore.report.sampled import Gathered
from fanstore.report.verdict import percent
from fanstore.wording import duration


@dataclass(frozen=True)
class Plot:
    """A plot on the page, with title and caption."""

    title: str
    svg: str
    caption: str


def overview(got: Gathered) -> list[Plot]:
    """Returns the plots at the top: who waited, when, and how fast files were opened."""
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
                "All ranks together, in bytes as they are stored. Bytes from no other source "
                "count as read from this node's own disk.",
            )
        )
    return plots


def _keepers(got: Gathered) -> str:
    """Returns a sentence that names, for each rank, the other rank for which it waited most, if
    known."""
    said = []
    for each in charts.shown_ranks(got.figures):
        known = {keeper: s for keeper, s in each.waited_for_s.items() if keeper >= 0}
        if known and sum(known.values()) > 0.01 * each.active_s:
            keeper = max(known, key=lambda rank: known[rank])
            said.append(f"rank {each.rank} for rank {keeper} ({duration(known[keeper])})")
    return f"Of the waits for other ranks, most were: {', '.join(said[:8])}." if said else ""


def in_detail(got: Gathered) -> list[Plot]:
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
            _delay(got.sampled.delay_s),
        ),
    ]
    return [Plot(title, draw(got), caption) for due, title, draw, caption in drawn if due]


def _delay(delay_s: float) -> str:
    """Returns a sentence about the delay of outputs, which is known to a quarter of a second, the
    time between samples."""
    if delay_s < 0.25:
        return "Outputs were in the output directory within a quarter of a second, on average."
    return f"An output took {duration(delay_s)} to the output directory, on average."
