"""Orders that follow from the files alone: the listing, and DALI's shuffle of it."""

from __future__ import annotations

import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.foresight.order.history import begins_as
from fanstore.policy.orders.other_frameworks import dali_random_shuffle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Order = NDArray[np.uint32]  # record ids

_HEAD = 64  # opens that an order has to explain
_FILES_MIN, _FILES_MAX = 256, 1 << 21


class Rules:
    """The rules, for the records of one dataset.

    records: returns a structured array with `parent` and `mode` of each record. Records stand level
    by level, those of a directory together and sorted by name, so the order of their ids is the
    listing.
    """

    def __init__(self, records: Callable[[], NDArray[Any]]) -> None:
        self._records = records
        self._failed: set[int] = set()  # directories for which no rule holds

    def order_of(self, opened: Order) -> Order | None:
        """Returns the order that begins with the first of these opens and goes round the files, if
        a rule explains all of the first 64 opens; else None. The files are those below the deepest
        directory that holds all 64."""
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
    """Returns the deepest directory that has all these records below it. A parent's id is smaller
    than its child's."""
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
    while True:  # once for each level
        more = below | below[parents]
        if (more == below).all():
            break
        below = more
    is_file = records["mode"] & 0o170000 == stat.S_IFREG
    return np.flatnonzero(below & is_file).astype(np.uint32)
