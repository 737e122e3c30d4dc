"""Finds out whether a reader repeats its opens, from its opens in their order; and computes orders
that follow from the files alone: the listing, and DALI's shuffle of it."""

from __future__ import annotations

import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.policy.orders.other_frameworks import dali_random_shuffle

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Order = NDArray[np.uint32]  # record ids


_AGAIN = 32  # a file that is opened again within so many opens is still being read
_PERIOD_MIN = 64  # shorter repetitions stay in the cache anyway
_RUN_MIN, _RUN_MAX = 8, 32  # opens that prove that an order repeats
_REORDERED = 1024  # by how many opens parallel readers may change the order
_GROWN = 1 << 12


class History:
    """The opens of one reader in one mount, in their order, each with its place: 0, 1 and so on.

    records: how many records the dataset has. most: how many opens are remembered: the newest ones.
    begun: the first opens, if the reader had more than that."""

    def __init__(self, records: int, most: int) -> None:
        self.count = 0
        self.begun: Order | None = None
        self._most = most
        self._first = 0  # the place of the oldest remembered open
        self._opens = np.empty(min(most, _GROWN), np.uint32)
        # For each open, the place of the file's previous open, or -1.
        self._before = np.empty(len(self._opens), np.int64)
        self._last = np.full(records, -1, np.int64)  # for each record, the place of its last open
        self._ends: list[int] = []  # the places at which a repetition ended

    def note(self, opened: ArrayLike) -> None:
        """Appends the record ids of opens. Leaves out a file that was opened just before."""
        known = np.asarray(opened, np.uint64)
        ids = known[known < np.uint64(len(self._last))].astype(np.int64)
        for at in range(0, len(ids), _AGAIN):
            _, firsts = np.unique(ids[at : at + _AGAIN], return_index=True)
            fresh = ids[at : at + _AGAIN][np.sort(firsts)]
            last = self._last[fresh]
            new = (last < 0) | (last < self.count - _AGAIN)
            self._add(fresh[new], last[new])

    def _add(self, ids: NDArray[np.int64], before: NDArray[np.int64]) -> None:
        self._make_room(len(ids))
        at = self.count - self._first
        self._opens[at : at + len(ids)] = ids
        self._before[at : at + len(ids)] = before
        self._last[ids] = np.arange(self.count, self.count + len(ids))
        self.count += len(ids)

    def _make_room(self, wanted: int) -> None:
        used = self.count - self._first
        if used + wanted <= len(self._opens):
            return
        if len(self._opens) < self._most:
            size = min(self._most, 2 * len(self._opens))
            self._opens, self._before = (
                np.concatenate([each, np.empty(size - len(each), each.dtype)])
                for each in (self._opens, self._before)
            )
            return
        if self.begun is None:
            self.begun = self._opens[:used].copy()
        drop = used // 2
        for each in (self._opens, self._before):
            each[: used - drop] = each[drop:used].copy()
        self._first += drop
        self._ends = [end for end in self._ends if end > self._first]

    def opens(self, start: int, end: int) -> Order:
        """Returns the record ids at the places from `start` to `end` that are still remembered."""
        first, last = (max(0, min(place, self.count) - self._first) for place in (start, end))
        opened: Order = self._opens[first:last].copy()
        return opened

    def went_away(self, place: int) -> None:
        """Records that a repetition ended at this place."""
        self._ends.append(place)

    def repeats(self, since: int) -> tuple[int, int, int] | None:
        """Returns places (start, end, again) if the newest opens, from `again` on, repeat the opens
        from `start` to `end`; None if they repeat nothing. since: opens before this place prove
        nothing."""
        before = self._newest(_RUN_MIN, since)
        if before is None:
            return None
        run = int(np.clip((self.count - int(np.median(before))) // 8, _RUN_MIN, _RUN_MAX))
        before = self._newest(run, since)
        if before is None:
            return None
        seen = before[before >= self._first]
        if 8 * len(seen) < 7 * run:
            return None
        middle = int(np.median(seen))
        period = self.count - middle
        near = seen[np.abs(seen - middle) <= run + min(_REORDERED, period // 8)]
        if period < _PERIOD_MIN or 8 * len(near) < 7 * run:
            return None
        start, again = int(near.min()), self.count - run
        return start, min([again, *(end for end in self._ends if end > start + run)]), again

    def _newest(self, run: int, since: int) -> NDArray[np.int64] | None:
        """Returns the previous place of the file of each of the newest `run` opens; None if there
        are fewer opens since `since`."""
        if self.count - run < max(since, self._first):
            return None
        at = self.count - self._first
        return self._before[at - run : at]


def begins_as(opened: Order, order: Order) -> bool | None:
    """Returns whether a reader's first opens are those of an order; None if they are too few to
    decide. Both must be without immediate repetitions, as History.opens returns them."""
    run = int(np.clip(len(order) // 8, _RUN_MIN, _RUN_MAX))
    if len(opened) < run:
        return None
    head = order[: run + min(_REORDERED, len(order) // 8)]
    return len(order) >= _PERIOD_MIN and 8 * int(np.isin(opened[:run], head).sum()) >= 7 * run


_HEAD = 64  # first opens that a rule must explain
_FILES_MIN, _FILES_MAX = 256, 1 << 21


class Rules:
    """Finds a rule that explains opens, for one dataset.

    records: returns a structured array with `parent` and `mode` of each record. Records are stored
    level by level, those of a directory together and sorted by name, so the order of their ids is
    the listing."""

    def __init__(self, records: Callable[[], NDArray[Any]]) -> None:
        self._records = records
        self._failed: set[int] = set()  # directories for which no rule holds

    def order_of(self, opened: Order) -> Order | None:
        """Returns an order that begins with the first of these opens and goes round the files, if a
        rule explains the first 64 opens; otherwise None. The files are those below the deepest
        directory that contains all 64."""
        if len(opened) < _HEAD:
            return None
        head = opened[:_HEAD]
        records = self._records()
        top = _common_parent(records["parent"], head)
        if top in self._failed:
            return None
        files = _files_below(records, top)
        if _FILES_MIN <= len(files) <= _FILES_MAX:
            for order in (files, files[next(dali_random_shuffle(len(files)))]):
                begun = np.roll(order, -int(np.flatnonzero(order == head[0])[0]))
                if begins_as(head, begun):
                    return begun
        self._failed.add(top)
        return None


def _common_parent(parents: NDArray[Any], records: Order) -> int:
    """Returns the deepest directory that contains all these records. A parent's id is smaller than
    its child's."""
    found = {int(parents[record]) for record in records}
    while len(found) > 1:
        deepest = max(found)
        found = found - {deepest} | {int(parents[deepest])}
    return found.pop()


def _files_below(records: NDArray[Any], top: int) -> Order:
    """Returns the regular files below a directory, in the order of the listing."""
    parents = records["parent"]
    below = np.zeros(len(records), bool)
    below[top] = True
    while True:  # one round for each level
        more = below | below[parents]
        if (more == below).all():
            break
        below = more
    is_file = records["mode"] & 0o170000 == stat.S_IFREG
    return np.flatnonzero(below & is_file).astype(np.uint32)
