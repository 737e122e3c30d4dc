"""The predicted reads of a job and the blocks that were fetched ahead, from the counts of its
daemons at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from fanstore.report.figures import Figures
from fanstore.report.verdict import percent
from fanstore.trace import SOURCES, Trace
from fanstore.wording import counted, duration, order_source, show_bytes

_COUNT_MAX = 1 << 62
_SAMPLERS_MAX, _NAME_MAX = 16, 60  # limits, because a trace may be hostile


@dataclass(frozen=True)
class Foreseen:
    """Counts of all ranks together. Pieces of large files count as opens. predicted: opens that the
    known order expected; `samplers` of them by torch's samplers, the others by a file of --order or
    a recorded order. strange: opens of files that were expected at another time. broken: epochs
    read in another order. blocks, bytes: fetched ahead; late: blocks that a program wanted before
    they had come; unread_bytes: fetched and never read. waits, waited_s: remaining waits of
    programs, for other ranks and the shared file system."""

    opens: int
    predicted: int
    samplers: dict[str, int]
    epochs: int
    strange: int
    broken: int
    blocks: int
    bytes: int
    late: int
    unread_bytes: int
    waits: int
    waited_s: float

    @property
    def share(self) -> float:
        """The part of the opens that was predicted."""
        return min(1.0, self.predicted / self.opens) if self.opens else 0.0

    @property
    def used_bytes(self) -> int:
        """Bytes that were fetched ahead and read, or may still be read."""
        return max(0, self.bytes - self.unread_bytes)


def foreseen(trace: Trace, figures: Figures) -> Foreseen | None:
    """Returns the counts; None if no rank knew an order."""
    told = [_table(each.get("foreseen")) for each in trace.ranks]
    orders, nodes = ([_table(each.get(name)) for each in told] for name in ("order", "node"))
    if not any(_count(each.get("epochs")) for each in orders):
        return None
    samplers: Counter[str] = Counter()
    for each in orders:
        samplers.update({name: _count(n) for name, n in _table(each.get("samplers")).items()})
    pieces = sum(_count(each.get("pieces")) for each in orders)
    elsewhere = [SOURCES.index(name) for name in ("rank", "shared")]
    return Foreseen(
        opens=sum(each.opens for each in figures.ranks) + pieces,
        predicted=sum(_count(each.get("predicted")) for each in orders),
        samplers={name[:_NAME_MAX]: n for name, n in samplers.most_common(_SAMPLERS_MAX)},
        epochs=sum(_count(each.get("epochs")) for each in orders),
        strange=sum(_count(each.get("strange")) for each in orders),
        broken=sum(_count(each.get("broken")) for each in orders),
        blocks=sum(_count(each.get("ahead")) for each in nodes),
        bytes=sum(_count(each.get("ahead_bytes")) for each in nodes),
        late=sum(_count(each.get("ahead_late")) for each in nodes),
        unread_bytes=sum(_count(each.get("ahead_unread_bytes")) for each in nodes),
        waits=int(sum(figures.waits[source] for source in elsewhere)),
        waited_s=float(sum(figures.waited_ns[source] for source in elsewhere)) / 1e9,
    )


def from_buckets(trace: Trace) -> dict[str, int]:
    """Returns the requests that all ranks sent to buckets, those that failed, and the bytes that
    came; {} if no dataset was in a bucket."""
    told = [_table(_table(each.get("foreseen")).get("buckets")) for each in trace.ranks]
    names = ("requests", "failed", "bytes") if any(told) else ()
    return {name: sum(_count(each.get(name)) for each in told) for name in names}


def sentences(found: Foreseen | None) -> list[str]:
    """Returns sentences for people about the counts."""
    if found is None:
        return []
    how = ", ".join(map(order_source, found.samplers))
    said = [
        f"The order was known for {percent(found.share)} of {counted(found.opens, 'open')}"
        f"{f' ({how})' if how else ''}, in {counted(found.epochs, 'epoch')} of loaders."
    ]
    if found.broken or found.strange:
        said.append(
            f"{counted(found.strange, 'open')} came when another was expected; "
            f"{counted(found.broken, 'epoch')} left the order, and nothing more was fetched ahead."
        )
    if found.blocks:
        said.append(
            f"{show_bytes(found.bytes)} in {counted(found.blocks, 'block')} were fetched ahead: "
            f"{show_bytes(found.used_bytes)} were read, {show_bytes(found.unread_bytes)} were not; "
            f"{counted(found.late, 'block')} came late."
        )
    said.append(
        f"Programs still waited {counted(found.waits, 'time')} for other ranks and the shared "
        f"file system, {duration(found.waited_s)} in all."
    )
    return said


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < _COUNT_MAX else 0
