"""Readers that announce nothing: records the opens of each, and follows them when they are
repeated."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.dataset import Dataset
from fanstore.foresight.followed import Course, figures_of
from fanstore.foresight.loaders import Opened, side_by_side
from fanstore.foresight.order.follow import Expected
from fanstore.foresight.order.history import History, Rules, begins_as
from fanstore.foresight.sink import Sink
from fanstore.messages.figures import OrderFigures
from fanstore.node.opens import with_parents

if TYPE_CHECKING:
    from numpy.typing import NDArray

# In samples, or as a part of the order; few, so that little matches by chance.
_REORDERED, _REORDERED_PART = 1024, 32
_PIECE = 32  # matches at least so many opens at once, in any order
_HEAD = 64  # opens that decide between several orders
KEPT_MIN = 64  # fewer opens are not kept
_READERS_MAX = 16
_REMEMBERED = 1 << 21  # opens of a reader: 24 MB, and 8 bytes for each record of its dataset
_KNOWN = "recorded"

# For each mount by number, the orders that may be repeated.
Kept = dict[int, "Sequence[NDArray[np.uint32]]"]


class RecordedReader:
    """Records the opens of a reader, and follows them when they are repeated.

    mount: its number; records: the number of records of the dataset. most: how many opens are
    remembered. kept: orders that may be repeated, as record ids, such as those of earlier jobs;
    rules: rules whose orders may come."""

    def __init__(
        self,
        mount: int,
        records: int,
        most: int,
        kept: Sequence[NDArray[np.uint32]],
        rules: Rules,
        sink: Sink,
    ) -> None:
        self._mount = mount
        self._sink = sink
        self._history = History(records, most)
        self._kept = list(kept)
        self._course: Course | None = None
        self._step = _PIECE
        self._from_kept = False
        self._rules = rules
        self._ruled = -1  # the place at which rules were last tried
        self._sure = 0  # opens before this place were expected
        self._since = 0  # opens before this place prove nothing
        # The opens of the first round, if later ones repeated it.
        self._first_round: int | None = None
        # The loader that reads, and for each one the places of the first open of its last epoch and
        # of the first one after it.
        self._loader = -1
        self._epochs: dict[int, tuple[int, int]] = {}
        self._counts: NDArray[np.int64] = np.zeros(4, np.int64)
        self._late = 0  # matched opens that came before their order was recognised

    def note(self, opened: Any) -> None:
        """Takes the record ids of opens, in about their order."""
        at = 0
        while at < len(opened):
            piece = opened[at : at + self._step]
            at += len(piece)
            due = self._follow(piece) if self._course is not None else 0
            self._history.note(piece)
            if 2 * due >= len(piece):
                self._sure = self._history.count
            if self._course is None:
                self._look()

    def begins(self, loader: int) -> None:
        """Call it when a loader begins an epoch. Expects the order of its last epoch, unless such a
        guess was wrong before."""
        history, begun = self._history, self._history.count
        since, _ = self._epochs.get(self._loader, (begun, begun))
        first, _ = self._epochs.get(loader, (begun, begun))
        # The loader may be past the beginning, which is where it opens its first file again.
        recent = history.opens(since, begun)
        again = np.flatnonzero(np.isin(recent[1:], history.opens(first, first + 1)))
        begun -= len(recent) - 1 - int(again[-1]) if len(again) else 0
        self._epochs[self._loader] = since, begun
        start, end = self._epochs.get(loader, (begun, begun))
        is_same, self._loader = loader == self._loader, loader
        self._epochs[loader] = begun, begun
        if (is_same and self._course is not None) or self._first_round == -1:
            return
        if end - start >= KEPT_MIN:
            self._first_round = self._first_round or end
            self._close()
            late = self._late
            self._begin(history.opens(start, end), begun)
            self._late = late  # opens since the beginning count as known, as for other loaders

    def _follow(self, piece: Any) -> int:
        """Matches opens with the expected order. Returns how many of them were expected."""
        assert self._course is not None
        matched = int(self._course.counts()[1])
        self._course.note(piece)
        due = int(self._course.counts()[1]) - matched
        if self._course.current is None:
            self._give_up()
        return due

    def _look(self) -> None:
        """Begins to follow an order if the newest opens repeat one."""
        if self._kept:
            head = self._history.opens(0, _HEAD)
            fits = {place: begins_as(head, order) for place, order in enumerate(self._kept)}
            for place, order in enumerate(self._kept):
                if fits[place]:
                    self._from_kept = True
                    self._begin(order, 0)
                    break
            self._kept = [each for place, each in enumerate(self._kept) if fits[place] is None]
            if self._course is not None:
                self._kept = []
                return
        found = self._history.repeats(self._since)
        if found is None:
            self._look_at_rules()
        else:
            start, end, again = found
            if self._first_round is None:
                self._first_round = again
            self._begin(self._history.opens(start, end), again)

    def _look_at_rules(self) -> None:
        """Begins to follow a rule that explains the first opens since the last order was given
        up."""
        head = self._history.opens(self._since, self._since + _HEAD)
        if self._ruled < self._since and len(head) == _HEAD:
            self._ruled = self._since
            order = self._rules.order_of(head)
            if order is not None:
                self._begin(order, self._since)

    def _begin(self, order: NDArray[np.uint32], since: int) -> None:
        batch = min(_REORDERED, max(1, len(order) // _REORDERED_PART))
        self._step = max(_PIECE, batch)
        expected = Expected(self._mount, order.astype(np.uint64), batch=batch)
        self._course = Course(self._sink, itertools.repeat(expected))
        before = int(self._course.counts()[1])
        self._course.note(self._history.opens(since, self._history.count))
        self._late += int(self._course.counts()[1]) - before
        self._sure = self._history.count
        if self._course.current is None:
            self._give_up()

    def _give_up(self) -> None:
        """Gives up the order, because the reader reads in another one."""
        self._close()
        self._first_round, self._from_kept = -1, False
        self._history.went_away(self._sure)
        self._since = self._history.count

    def _close(self) -> None:
        if self._course is not None:
            self._course.end()
            self._counts += self._course.counts()
            self._course = None

    def end(self) -> NDArray[np.uint32] | None:
        """Ends the reader. Returns an order that a later job may follow; None if there is none, or
        it is kept already."""
        was_kept = self._from_kept
        self._close()
        if was_kept:
            return None
        history, begun = self._history, self._history.begun
        whole = history.opens(0, history.count) if begun is None else begun
        if self._first_round is not None and self._first_round >= KEPT_MIN:
            whole = whole[: self._first_round]
        return whole if len(whole) >= KEPT_MIN else None

    def counts(self) -> NDArray[np.int64]:
        """Returns counts like Course.counts. May be called from any thread."""
        counts: NDArray[np.int64] = self._counts - np.array([0, self._late, 0, 0])
        course = self._course  # another thread may replace it
        return counts if course is None else counts + course.counts()


class Recorded:
    """The readers of a job.

    datasets: the dataset of each mount. kept: orders that may be repeated. group_of: returns the
    process group of a set of processes (of Opens), 0 if unknown."""

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
        self._readers: dict[tuple[int, int], RecordedReader] = {}
        self._loaders: dict[int, int] = {}  # by process group, the last one that began an epoch
        self._counts = np.zeros(4, np.int64)
        self._off = False

    def note(self, opened: Iterable[Opened]) -> None:
        """Records the opens of programs that announce nothing, in the form that Opens.take
        returns."""
        parts: dict[tuple[int, int], list[NDArray[np.uint64]]] = {}
        for family, by_mount in opened:
            group = self._group_of(family)
            for mount, records in by_mount.items():
                parts.setdefault((mount, group), []).append(records)
        for (mount, group), each in parts.items():
            self._note(mount, group, side_by_side(each))

    def begins(self, pid: int, loader: int) -> None:
        """Call it when a loader of a process begins an epoch whose order is unknown."""
        group = with_parents(pid)[1]
        self._loaders[group] = loader
        for key, reader in self._readers.items():
            if key[1] == group:
                reader.begins(loader)

    def _note(self, mount: int, group: int, records: NDArray[np.uint64]) -> None:
        if self._off or mount >= len(self._records):
            return
        records = records[records < self._records[mount]]  # pieces are not recorded
        reader = self._reader(mount, group)
        try:
            reader.note(records)
        except OSError as error:  # the node cannot prefetch the order
            print(f"fanstore: orders: {error}", file=sys.stderr, flush=True)
            self._off = True

    def _reader(self, mount: int, group: int) -> RecordedReader:
        """Returns the reader of a process group, and makes it the newest one. The group of ended
        processes is unknown: their opens count for the newest reader."""
        key = (mount, group)
        if not group:
            key = next((each for each in reversed(self._readers) if each[0] == mount), key)
        reader = self._readers.pop(key, None)
        if reader is None:
            kept, rules = self._kept.get(mount, ()), self._rules[mount]
            reader = RecordedReader(
                mount, self._records[mount], _REMEMBERED, kept, rules, self._sink
            )
            reader.begins(self._loaders.get(group, -1))
            if len(self._readers) >= _READERS_MAX:
                oldest = self._readers.pop(next(iter(self._readers)))
                oldest.end()
                self._counts += oldest.counts()
        self._readers[key] = reader
        return reader

    def end(self) -> Kept:
        """Ends all readers. Returns the orders that a later job may follow."""
        orders: dict[int, list[NDArray[np.uint32]]] = {}
        for (mount, _), reader in self._readers.items():
            order = reader.end()
            if order is not None:
                orders.setdefault(mount, []).append(order)
        return dict(orders)

    def figures(self) -> OrderFigures:
        """Returns counts like Loaders.figures. May be called from any thread."""
        counts = sum((each.counts() for each in list(self._readers.values())), self._counts)
        return figures_of(counts, _KNOWN if counts[0] else "")
