"""In which orders a rank read a dataset, kept for later jobs that are the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.order.history import begins_as
from fanstore.serve.kept import KeptFiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Order = NDArray[np.uint32]  # record ids

_ORDERS_MAX = 8
_OPENS_MAX, _OPENS_MIN = 1 << 22, 1 << 16  # of all ranks together, and of each at least
_HEAD = 64


class KeptOrders:
    """The orders of one rank and one dataset. files: where they are; records: how many the dataset
    has."""

    def __init__(self, files: KeptFiles, records: int, rank: int, world_size: int) -> None:
        self.files = files
        self.records = records
        self._name = f"order-{rank}-of-{world_size}"
        self._opens_max = _OPENS_MAX // world_size + _OPENS_MIN

    def load(self) -> list[Order]:
        """Returns what is kept, nothing of which is trusted."""
        found: list[Order] = []
        for content in self.files.read(self._name):
            try:
                found += _decoded(content, self.records)
            except ValueError as error:
                self.files.warn(f"{self._name}: {error}; not used")
        return found[: 2 * _ORDERS_MAX]

    def add(self, orders: Sequence[Order]) -> None:
        """Keeps orders of this job, in place of those that begin in the same way, and of the oldest
        where there are many."""
        kept = [order[: self._opens_max] for order in orders]
        kept += [
            old for old in self.load() if not any(begins_as(old[:_HEAD], new) for new in kept)
        ]  # fmt: skip
        sums = np.cumsum([len(order) for order in kept])
        some = kept[: max(1, int((sums <= self._opens_max).sum()))][:_ORDERS_MAX]
        self.files.write(self._name, _encoded(some))


def _encoded(orders: Sequence[Order]) -> bytes:
    lengths = [len(orders), *map(len, orders)]
    rows = [np.array(lengths), *orders]
    return b"".join(row.astype("<u4").tobytes() for row in rows)


def _decoded(content: bytes, records: int) -> list[Any]:
    if not content or len(content) % 4:
        raise ValueError(f"{len(content)} bytes are no orders")
    words = np.frombuffer(content, "<u4").astype(np.uint32)
    count = int(words[0])
    lengths = words[1 : 1 + count].astype(np.int64)
    ids = words[1 + len(lengths) :]
    if len(lengths) < count or int(lengths.sum()) != len(ids):
        raise ValueError(f"{len(ids)} opens are not those of {count} orders")
    if len(ids) and int(ids.max()) >= records:
        raise ValueError(f"record {ids.max()} of {records}")
    return np.split(ids, np.cumsum(lengths)[:-1]) if count else []
