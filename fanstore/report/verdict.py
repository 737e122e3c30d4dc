"""The one sentence at the head of a report."""

from __future__ import annotations

from statistics import median

from fanstore.report.catalogue import NOBODY
from fanstore.report.figures import Figures, RankFigures
from fanstore.trace import SOURCES

SOURCE_WORDS = {
    "disk": "the local disk",
    "cache": "the block cache",
    "rank": "other ranks",
    "shared": "the shared file system",
    "output": "answers about outputs",
}
_LITTLE = 0.02
_SLOW, _SLOWER = 0.05, 1.5


def percent(share: float) -> str:
    """Returns a share as people write it: `43 %`, `0.4 %`, `under 0.1 %`."""
    if 0 < share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.1f} %" if 0 < share < 0.0995 else f"{100 * share:.0f} %"


def slow_rank(figures: Figures) -> RankFigures | None:
    """Returns the rank that waits much longer than the others, if there is one."""
    if len(figures.ranks) < 2:
        return None
    worst = max(figures.ranks, key=lambda each: each.share)
    others = median(each.share for each in figures.ranks if each is not worst)
    is_slow = worst.share >= _SLOW and worst.share >= _SLOWER * others
    return worst if is_slow else None


def headline(figures: Figures) -> str:
    """Returns the verdict: who waited how long, and for what."""
    if not sum(each.opens for each in figures.ranks):
        return "No program of this job opened a file of its datasets."
    slow = slow_rank(figures)
    if slow is not None:
        return f"Rank {slow.rank} waited {percent(slow.share)} of its time{_cause([slow])}."
    share = figures.share()
    if share < _LITTLE:
        return f"Reading held nobody up: programs waited {percent(share)} of their time."
    shares = [each.share for each in figures.ranks]
    spread = f" ({percent(min(shares))} to {percent(max(shares))})" if len(shares) > 1 else ""
    who = f"All {len(shares)} ranks" if len(shares) > 1 else "The programs"
    return f"{who} waited {percent(share)} of their time{spread}{_cause(figures.ranks)}."


def _cause(ranks: list[RankFigures]) -> str:
    """Returns what most of the waiting was for, and how much of it."""
    by_source = sum((each.waited_s for each in ranks[1:]), ranks[0].waited_s)
    total_s = float(by_source.sum())
    if not total_s:
        return ""
    number = int(by_source.argmax())
    part, what = float(by_source[number]) / total_s, SOURCE_WORDS[SOURCES[number]]
    if SOURCES[number] == "rank" and (keeper := _main_keeper(ranks)):
        what, part = f"rank {keeper[0]}", keeper[1] / total_s
    return f", most of it ({percent(part)}) for {what}"


def _main_keeper(ranks: list[RankFigures]) -> tuple[int, float] | None:
    """Returns the rank for which more than half of the waits for other ranks were, and how long
    they took in seconds."""
    totals: dict[int, float] = {}
    for each in ranks:
        for keeper, waited_s in each.waited_for_s.items():
            totals[keeper] = totals.get(keeper, 0.0) + waited_s
    keeper = max(totals, key=lambda each: totals[each])
    if keeper == NOBODY or totals[keeper] <= 0.5 * sum(totals.values()):
        return None
    return keeper, totals[keeper]
