"""Readers that announce nothing: what each opens is noted, and followed when it comes again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.dataset import Dataset
from fanstore.foresight.loaders import Opened, side_by_side
from fanstore.foresight.order.rules import Rules
from fanstore.foresight.reader import Reader
from fanstore.foresight.sink import Sink

if TYPE_CHECKING:
    from numpy.typing import NDArray

_READERS_MAX = 16
_REMEMBERED = 1 << 21  # opens of a reader: 24 MB, and 8 bytes for each record of its dataset
_KNOWN = "recorded"

# The orders that may come in a mount, by its number.
Kept = dict[int, "Sequence[NDArray[np.uint32]]"]


class Recorded:
    """The readers of a job.

    datasets: that of each mount. kept: orders that may come. group_of: the process group of
    processes that Opens names, 0 where it is not known.
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        kept: Kept,
        group_of: Callable[[frozenset[int]], int],
        sink: Sink,
    ) -> None:
        self._records = [int(each.header.record_count) for each in datasets]
        self._rules = [Rules(partial(getattr, each, "records")) for each in datasets]
        self._kept = kept
        self._group_of = group_of
        self._sink = sink
        self._readers: dict[tuple[int, int], Reader] = {}
        self._counts = np.zeros(4, np.int64)
        self._off = False

    def note(self, opened: Iterable[Opened]) -> None:
        """Takes what was opened by programs that announce nothing, as Opens.take gives it."""
        parts: dict[tuple[int, int], list[NDArray[np.uint64]]] = {}
        for family, by_mount in opened:
            group = self._group_of(family)
            for mount, records in by_mount.items():
                parts.setdefault((mount, group), []).append(records)
        for (mount, group), each in parts.items():
            self._note(mount, group, side_by_side(each))

    def _note(self, mount: int, group: int, records: NDArray[np.uint64]) -> None:
        if self._off or mount >= len(self._records):
            return
        reader = self._reader(mount, group)
        try:
            reader.note(records)
        except OSError as error:  # the node cannot take it
            print(f"fanstore: orders: {error}", file=sys.stderr, flush=True)
            self._off = True

    def _reader(self, mount: int, group: int) -> Reader:
        """Returns the reader that a process group is, as the newest of them. Of processes that have
        ended it is not known any more: they count for the newest reader."""
        key = (mount, group)
        if not group:
            key = next((each for each in reversed(self._readers) if each[0] == mount), key)
        reader = self._readers.pop(key, None)
        if reader is None:
            kept, rules = self._kept.get(mount, ()), self._rules[mount]
            reader = Reader(mount, self._records[mount], _REMEMBERED, kept, rules, self._sink)
            if len(self._readers) >= _READERS_MAX:
                oldest = self._readers.pop(next(iter(self._readers)))
                oldest.end()
                self._counts += oldest.counts()
        self._readers[key] = reader
        return reader

    def end(self) -> Kept:
        """Ends them all. Returns the orders that a later job may follow."""
        orders: dict[int, list[NDArray[np.uint32]]] = {}
        for (mount, _), reader in self._readers.items():
            order = reader.end()
            if order is not None:
                orders.setdefault(mount, []).append(order)
        return dict(orders)

    def figures(self) -> dict[str, Any]:
        """Returns counts as Loaders.figures does. May be called in any thread."""
        counts = self._counts + sum(
            (np.array(each.counts()) for each in list(self._readers.values())),
            np.zeros(4, np.int64),
        )
        epochs, predicted, strange, broken = (int(each) for each in counts)
        samplers = {_KNOWN: predicted} if epochs else {}
        return {
            "epochs": epochs, "predicted": predicted, "samplers": samplers, "strange": strange,
            "broken": broken,
        }  # fmt: skip
