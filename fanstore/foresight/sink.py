"""Receives expected reads, and makes the node fetch the files."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fanstore.dataset import Dataset
    from fanstore.foresight.order.follow import Expected
    from fanstore.node.visit import SharedCache


class Sink:
    """Receives the expected reads of loaders. This base class ignores them."""

    def begin(self, expected: Expected, behind: int = 0) -> int:
        """Begins an epoch of a loader. behind: another epoch, after which the loader reads this
        one, or 0. Returns the token that names the new epoch."""
        return 0

    def advance(self, token: int, position: int, read: int) -> None:
        """Reports the progress of an epoch: the first `position` samples are passed, and `read`
        samples were read in all."""

    def end(self, token: int) -> None:
        """Ends an epoch: it is not read any further, or not in that order."""

    def close(self) -> None:
        """Ignores all calls from now on."""


class NodeSink(Sink):
    """Makes a node fetch the files of expected reads. Any thread may call it. After `close` it no
    longer uses the node."""

    def __init__(self, node: SharedCache, datasets: Sequence[Dataset]) -> None:
        """node: fetches the files. datasets: the dataset of each mount, in their order."""
        self._node: SharedCache | None = node
        self._datasets = datasets
        self._lock = threading.Lock()

    def begin(self, expected: Expected, behind: int = 0) -> int:
        """Raises OSError if the node cannot take the epoch."""
        with self._lock:
            if self._node is None:
                return 0
            dataset, entries = self._datasets[expected.mount], expected.records
            # The table of pieces is made from all records, so only for orders that need it.
            if (entries >= dataset.header.record_count).any():
                entries = dataset.pieces.entries(entries)
            return self._node.begin_order(expected.mount, entries, behind)

    def advance(self, token: int, position: int, read: int) -> None:
        with self._lock:
            if self._node is not None:
                self._node.pass_order(token, position, read)

    def end(self, token: int) -> None:
        with self._lock:
            if self._node is not None:
                self._node.end_order(token)

    def close(self) -> None:
        """Ends all calls to the node, which may then be closed."""
        with self._lock:
            self._node = None
