"""Rules that derive advice from the figures of a report. Each returns a sentence with the figures
that support it, or None."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from fanstore.report.catalogue import NOBODY
from fanstore.report.figures import RankFigures
from fanstore.report.sampled import Gathered
from fanstore.report.verdict import percent, slow_rank, slow_source
from fanstore.trace import SOURCES
from fanstore.wording import SOURCE_WORDS, duration, show_bytes

SHOWN = 3
_WORTH = 0.05  # part of all readers' time, below which no advice is given
_NEVER_WORTH = 0.2
_FULL = 0.95


@dataclass(frozen=True)
class Advice:
    """A piece of advice. gain: the part of all readers' time that may be saved, 0 to 1; the largest
    gain is shown first. figures: those that support the sentence."""

    sentence: str
    gain: float
    figures: dict[str, Any]


def advise(got: Gathered) -> list[Advice]:
    """Returns the advice with the largest gains, at most SHOWN pieces."""
    found = [made for rule in RULES if (made := rule(got)) is not None]
    return sorted(found, key=lambda each: -each.gain)[:SHOWN]


def _part(got: Gathered, source: str) -> float:
    """Returns the part of all readers' time that was spent waiting for one source."""
    active_s = got.figures.active_s()
    return float(got.figures.waited_s()[SOURCES.index(source)]) / active_s if active_s else 0.0


def more_replicas(got: Gathered) -> Advice | None:
    """Advises more replicas if reads from other ranks take long and the packs could be on more
    ranks."""
    part, world = _part(got, "rank"), got.figures.world_size
    replicas = got.files.replicas
    if part < _WORTH or not replicas or replicas >= world:
        return None
    gain = part / (world - replicas)
    more = "all" if replicas + 1 >= world else str(replicas + 1)
    return Advice(
        f"{percent(part)} of the readers' time went on waits for other ranks, since each pack lies "
        f"on {replicas} of {world}; with --replicas {more} about {percent(1 / (world - replicas))} "
        "of these reads would find their file on their own node.",
        gain,
        {"waited_share": part, "replicas": replicas, "world_size": world},
    )


def keep_more(got: Gathered) -> Advice | None:
    """Advises to keep more on the nodes if programs read from the shared file system again in later
    epochs."""
    part, later = _part(got, "shared"), got.sampled.shared_later_part
    if part < _WORTH or later < 0.5:
        return None
    return Advice(
        f"{percent(part)} of the readers' time went on waits for the shared file system, and "
        f"{percent(later)} of these came after the first epoch: the nodes did not keep what they "
        "had read; more room (--local-bytes, --memory-bytes) or more nodes would let them.",
        part * later,
        {"waited_share": part, "after_first_epoch": later},
    )


def stage_first(got: Gathered) -> Advice | None:
    """Advises to stage first if programs read from the shared file system mostly in the first
    epoch."""
    part, later = _part(got, "shared"), got.sampled.shared_later_part
    if part < _WORTH or later >= 0.5:
        return None
    return Advice(
        f"{percent(part)} of the readers' time went on waits for the shared file system, "
        f"{percent(1 - later)} of it in the first epoch; --stage full copies the packs as a whole "
        "before the command starts, and --keep-staged spares the next job that.",
        part * (1 - later),
        {"waited_share": part, "in_first_epoch": 1 - later},
    )


def look_at_slow_source(got: Gathered) -> Advice | None:
    """Advises to look at a rank that reads its disk, or the shared file system, much more slowly
    than the others."""
    slow = slow_source(got.figures)
    if slow is None:
        return None
    return Advice(
        f"A wait for {SOURCE_WORDS[slow.source]} took rank {_named(slow.rank)} "
        f"{duration(slow.own_s)} on average, other ranks {duration(slow.others_s)}; with what "
        f"other ranks waited for this one it cost {percent(slow.part)} of the readers' time: look "
        f"at this node's {_parts_of_node(slow.source)}.",
        slow.part * (1 - slow.others_s / slow.own_s),
        {
            "rank": slow.rank.rank, "source": slow.source, "mean_wait_s": slow.own_s,
            "others_mean_wait_s": slow.others_s, "share": slow.part,
        },
    )  # fmt: skip


def _named(rank: RankFigures) -> str:
    return f"{rank.rank} ({rank.host})" if rank.host else str(rank.rank)


def look_at_slow_rank(got: Gathered) -> Advice | None:
    """Advises to look at a rank that waits much longer than the others."""
    slow, told = slow_rank(got.figures), slow_source(got.figures)
    if slow is None or (told is not None and told.rank is slow):
        return None
    others = median(each.share for each in got.figures.ranks if each is not slow)
    source = SOURCES[int(slow.waited_s.argmax())]
    gain = (slow.share - others) * slow.active_s / got.figures.active_s()
    return Advice(
        f"Rank {_named(slow)} waited {percent(slow.share)} of its readers' time, the others "
        f"{percent(others)}; most of that was for {SOURCE_WORDS[source]}: look at this node's "
        f"{_parts_of_node(source)}, for in a job that works in step all wait for it.",
        gain,
        {"rank": slow.rank, "share": slow.share, "others": others, "source": source},
    )


def _parts_of_node(source: str) -> str:
    words = {"disk": "disk", "output": "daemon", "cache": "memory and --cache-bytes"}
    return words.get(source, "network and file system")


def look_at_keeper(got: Gathered) -> Advice | None:
    """Advises to look at a rank if most waits for other ranks are for that one, although it keeps
    no more than its part."""
    totals: dict[int, float] = {}
    for each in got.figures.ranks:
        for keeper, waited_s in each.waited_for_s.items():
            totals[keeper] = totals.get(keeper, 0.0) + waited_s
    known = {keeper: s for keeper, s in totals.items() if keeper != NOBODY}
    part = _part(got, "rank")
    if part < _WORTH or not known or slow_source(got.figures) is not None:
        return None
    worst = max(known, key=lambda keeper: known[keeper])
    of_all = known[worst] / sum(totals.values())
    if of_all < max(0.6, 1.6 / got.figures.world_size):
        return None
    named = next((_named(each) for each in got.figures.ranks if each.rank == worst), str(worst))
    return Advice(
        f"{percent(of_all)} of the time that readers waited for other ranks was for what rank "
        f"{named} has: look at this node's disk and network, and at what else runs there.",
        part * of_all / 2,
        {"rank": worst, "part_of_waits_for_ranks": of_all, "waited_share": part},
    )


def faster_disk(got: Gathered) -> Advice | None:
    """Advises a faster local disk if programs wait for it."""
    part = _part(got, "disk")
    if part < _WORTH:
        return None
    return Advice(
        f"{percent(part)} of the readers' time went on waits for the local disk; a --local-dir on "
        "a faster one, or in memory where the dataset fits, would spare them.",
        part / 2,
        {"waited_share": part},
    )


def larger_cache(got: Gathered) -> Advice | None:
    """Advises a larger cache if the cache was full while the same files came from other ranks again
    and again."""
    part = _part(got, "rank") + _part(got, "cache")
    if part < _WORTH or got.figures.epochs < 2 or got.sampled.cache_fill < _FULL:
        return None
    return Advice(
        f"The block cache was {percent(got.sampled.cache_fill)} full while {percent(part)} of the "
        f"readers' time went on waits for what it should hold; --cache-bytes of more than "
        f"{show_bytes(got.sampled.cache_bytes)} would keep more from one epoch to the next.",
        part / 2,
        {
            "cache_fill": got.sampled.cache_fill,
            "cache_bytes": got.sampled.cache_bytes,
            "waited_share": part,
        },
    )


def fewer_outputs(got: Gathered) -> Advice | None:
    """Advises fewer outputs if programs wait for the daemon while they make outputs."""
    part = _part(got, "output")
    if part < _WORTH:
        return None
    waits = int(got.figures.waits[SOURCES.index("output")])
    return Advice(
        f"{percent(part)} of the readers' time went on {waits:,} questions about outputs; fewer "
        "and larger files would need fewer.",
        part / 2,
        {"waited_share": part, "waits": waits},
    )


def pack_less(got: Gathered) -> Advice | None:
    """Advises to pack less if much of the dataset is never read."""
    never, total = got.files.never_bytes, got.files.dataset_bytes
    if not got.files.opened_files or got.figures.dropped or never <= _NEVER_WORTH * total:
        return None
    return Advice(
        f"{percent(never / total)} of the bytes of the dataset ({show_bytes(never)}) were never "
        "opened; a dataset without them would be staged faster and need less room.",
        0.0,
        {"never_read_bytes": never, "dataset_bytes": total},
    )


RULES: tuple[Callable[[Gathered], Advice | None], ...] = (
    more_replicas, keep_more, stage_first, look_at_slow_source, look_at_slow_rank, look_at_keeper,
    faster_disk, larger_cache, fewer_outputs, pack_less,
)  # fmt: skip
