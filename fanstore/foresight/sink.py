"""Who is told what will be read: the node, which brings it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fanstore.foresight.order.follow import Expected
    from fanstore.node.core import Node


class Sink:
    """What is told what loaders will read. This one does nothing."""

    def begin(self, expected: Expected, behind: int = 0) -> int:
        """A loader begins an epoch, or is to begin it when it is through with the one that is
        called `behind`. Returns what it is called from now on."""
        return 0

    def advance(self, token: int, position: int, read: int) -> None:
        """So many samples of it are passed; so many were read, not all of them the first."""

    def end(self, token: int) -> None:
        """It is read no further, or not in that order."""

    def close(self) -> None:
        """Tells nobody anything from now on."""


class NodeSink(Sink):
    """Has a node bring what is told; by any thread, until `close`, after which the node may go."""

    def __init__(self, node: Node) -> None:
        self._node: Node | None = node
        self._lock = threading.Lock()

    def begin(self, expected: Expected, behind: int = 0) -> int:
        """Raises OSError where the node cannot take it."""
        with self._lock:
            if self._node is None:
                return 0
            return self._node.begin_order(expected.mount, expected.records, behind)

    def advance(self, token: int, position: int, read: int) -> None:
        with self._lock:
            if self._node is not None:
                self._node.pass_order(token, position, read)

    def end(self, token: int) -> None:
        with self._lock:
            if self._node is not None:
                self._node.end_order(token)

    def close(self) -> None:
        """Calls the node no more, which may be closed then."""
        with self._lock:
            self._node = None
