"""The one sentence at the head of a report."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from fanstore.report.catalogue import NOBODY
from fanstore.report.figures import Figures, RankFigures
from fanstore.trace import SOURCES
from fanstore.wording import SOURCE_WORDS

_LITTLE = 0.02
_APART = 0.03
_SLOW, _SLOWER = 0.05, 1.5
_SLOW_TIMES, _ENOUGH = 3, 10


def percent(share: float) -> str:
    """Returns a share as text for people: `43 %`, `0.4 %`, `under 0.1 %`."""
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


@dataclass(frozen=True)
class SlowSource:
    """A source that one rank reads much more slowly than the others, by the mean of its waits.
    part: the part of all readers' time that this costs, including the waits of others for this
    rank."""

    rank: RankFigures
    source: str
    own_s: float
    others_s: float
    part: float


def slow_source(figures: Figures) -> SlowSource | None:
    """Returns the slow source that costs most, if there is one."""
    found = [
        slow
        for rank in figures.ranks
        for source in ("disk", "shared")
        if (slow := _slow_source(figures, rank, source)) and slow.part >= _SLOW
    ]
    return max(found, key=lambda each: each.part, default=None)


def _slow_source(figures: Figures, rank: RankFigures, source: str) -> SlowSource | None:
    number = SOURCES.index(source)
    # A rank may read as much with few waits, because its reads are fetched ahead: compare with such
    # ranks, too.
    much = max(float(rank.stall_bytes[number]) / 2, 1.0)
    means_s = [
        float(each.mean_wait_s[number])
        for each in figures.ranks
        if each is not rank and (each.waits[number] >= _ENOUGH or each.stall_bytes[number] >= much)
    ]
    own_s = float(rank.mean_wait_s[number])
    if not means_s or rank.waits[number] < _ENOUGH or own_s < _SLOW_TIMES * median(means_s):
        return None
    waited_s = float(rank.waited_s[number])
    waited_s += sum(each.waited_for_s.get(rank.rank, 0.0) for each in figures.ranks)
    active_s = figures.active_s()
    return SlowSource(rank, source, own_s, median(means_s), waited_s / active_s if active_s else 0)


def headline(figures: Figures) -> str:
    """Returns the verdict: who waited, how long, and for what."""
    if not sum(each.opens for each in figures.ranks):
        return "No program of this job opened a file of its datasets."
    slow = slow_rank(figures)
    if slow is not None:
        who = f"Rank {slow.rank} waited {percent(slow.share)} of its time"
        return f"{who}{_cause(figures, [slow])}."
    share = figures.share()
    if share < _LITTLE:
        return f"Reading held nobody up: programs waited {percent(share)} of their time."
    shares = sorted(each.share for each in figures.ranks)
    differ = shares[-1] - shares[0] >= _APART
    spread = f" ({percent(shares[0])} to {percent(shares[-1])})" if differ else ""
    names = {1: "The programs", 2: "Both ranks"}
    who = names.get(len(shares), f"All {len(shares)} ranks")
    return f"{who} waited {percent(share)} of their time{spread}{_cause(figures, figures.ranks)}."


def _cause(figures: Figures, ranks: list[RankFigures]) -> str:
    """Returns a phrase for the main cause of these ranks' waits, and its part of them."""
    by_source = sum((each.waited_s for each in ranks[1:]), ranks[0].waited_s)
    total_s = float(by_source.sum())
    if not total_s:
        return ""
    number = int(by_source.argmax())
    part, what = float(by_source[number]) / total_s, SOURCE_WORDS[SOURCES[number]]
    if SOURCES[number] == "rank" and (keeper := _main_keeper(figures, ranks)):
        what, part = f"rank {keeper[0]}", keeper[1] / total_s
    elif SOURCES[number] == "rank" and len(ranks) > 1:
        what = "one another"
    most = "most of it" if part > 0.5 else "the largest part of it"
    return f", {most} ({percent(part)}) for {what}{_slowness(figures, ranks, what)}"


def _slowness(figures: Figures, ranks: list[RankFigures], what: str) -> str:
    """Returns a phrase that says how much more slowly one rank reads, if that explains the
    waits."""
    slow = slow_source(figures)
    if slow is None:
        return ""
    times = f"{slow.own_s / slow.others_s:.0f} times"
    if what == f"rank {slow.rank.rank}":
        return f", which waits {times} as long as others for a read of {SOURCE_WORDS[slow.source]}"
    if what == SOURCE_WORDS[slow.source]:
        whose = "it" if ranks == [slow.rank] else f"rank {slow.rank.rank}"
        return f", where a read takes {whose} {times} as long as others"
    return ""


def _main_keeper(figures: Figures, ranks: list[RankFigures]) -> tuple[int, float] | None:
    """Returns the rank for which these ranks waited most, and how long, in seconds. None if two
    ranks wait mainly for each other."""
    totals: dict[int, float] = {}
    for each in ranks:
        for keeper, waited_s in each.waited_for_s.items():
            totals[keeper] = totals.get(keeper, 0.0) + waited_s
    keeper = max(totals, key=lambda each: totals[each])
    slow = slow_source(figures)
    is_known = len(ranks) == 1 or (slow is not None and slow.rank.rank == keeper)
    least = 0.5 if is_known else max(0.6, 1.6 / len(ranks))
    if keeper == NOBODY or totals[keeper] <= least * sum(totals.values()):
        return None
    return keeper, totals[keeper]
