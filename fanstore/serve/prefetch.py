"""Has the node bring what loaders are about to open, as far as the order is known, and follows them
through it by the access trace."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from fanstore.errors import FanstoreError
from fanstore.order.expected import Expected
from fanstore.order.follow import Follower
from fanstore.serve.new_opens import NewOpens
from fanstore.serve.node import Node

_LOOK_S = 0.02
_IDLE_LOOK_S = 0.2  # where nothing was opened for a while
_IDLE_LOOKS = 50
_END_WAIT_S = 5.0


class _Epoch:
    """An epoch that is known: what is expected, and the order of the node that brings it."""

    def __init__(self, node: Node, expected: Expected, behind: int = 0) -> None:
        """behind: the order that is brought before. Raises OSError."""
        self.expected = expected
        self.follower = Follower(expected)
        self.order = node.begin_order(expected.mount, expected.records, behind)

    @property
    def is_over(self) -> bool:
        """Whether the loader is past the end, as far as can be seen."""
        return self.follower.position >= len(self.expected.records)

    @property
    def is_ending(self) -> bool:
        """Whether what is left may be under way, or will not be read (drop_last)."""
        left = len(self.expected.records) - self.follower.position
        return left <= 2 * self.expected.reordered

    @property
    def is_mostly_read(self) -> bool:
        """Whether the loader went by this order so far."""
        return 2 * self.follower.matched >= len(self.expected.records)


class _Loader:
    """One loader, and the epochs of it that are known: the one that is read, and the next."""

    def __init__(self, node: Node, source: str, epochs: Iterator[Expected]) -> None:
        self._node = node
        self._epochs = epochs
        self.source = source
        self.epochs = self.matched = self.strange = 0
        self.broken = False
        self.current = self._begin_next(0)
        self.following = self._begin_next(self.current.order) if self.current else None

    def _begin_next(self, behind: int) -> _Epoch | None:
        expected = next(self._epochs, None)
        return None if expected is None else _Epoch(self._node, expected, behind)

    def note(self, opened: Any) -> None:
        """Takes what was opened of the mount, and moves on."""
        if self._follow(opened):
            self._follow(opened)

    def _follow(self, opened: Any) -> bool:
        """Does so in the epoch that is read. Returns whether there are opens of the next one among
        them, which is that from now on."""
        epoch = self.current
        if epoch is None:
            return False
        was_ending = epoch.is_ending
        position = epoch.follower.note(opened)
        if epoch.follower.broken and not (was_ending and epoch.is_mostly_read):
            self.broken = True
            self.end()
            return False
        self._node.pass_order(epoch.order, position)
        if epoch.is_over or epoch.follower.broken:
            self._next_epoch()
        return epoch.follower.broken

    def _next_epoch(self) -> None:
        assert self.current is not None
        self._close(self.current)
        self.current, self.following = self.following, None
        if self.current is not None:
            self.following = self._begin_next(self.current.order)

    def _close(self, epoch: _Epoch) -> None:
        self._node.end_order(epoch.order)
        self.epochs += epoch.is_over or epoch.is_ending
        self.matched += epoch.follower.matched
        self.strange += epoch.follower.strange

    def end(self) -> None:
        """Has nothing more brought."""
        for epoch in (self.current, self.following):
            if epoch is not None:
                self._close(epoch)
        self.current = self.following = None

    def figures(self) -> dict[str, Any]:
        """Returns the counts so far, for `fanstore status`."""
        follower = None if self.current is None else self.current.follower
        return {
            "source": self.source,
            "epochs": self.epochs,
            "predicted": self.matched + (0 if follower is None else follower.matched),
            "strange": self.strange + (0 if follower is None else follower.strange),
            "state": "broken" if self.broken else "ended" if follower is None else "followed",
        }


class Prefetch:
    """Follows loaders in a thread, which is started with the first. Its functions may be called in
    any thread."""

    def __init__(self, node: Node, segment: str) -> None:
        self._node = node
        self._segment = segment
        self._lock = threading.Lock()
        self._loaders: dict[str, _Loader] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.problem = ""

    def expect(self, loader: str, epochs: Iterable[Expected], source: str) -> None:
        """Tells what a loader is going to open: this epoch, and as many of the next ones as are
        known. What was said of it before holds no more. source: how that is known, for people.
        Raises OSError or FanstoreError."""
        with self._lock:
            if self._stopping.is_set():
                return
            if loader in self._loaders:
                self._loaders[loader].end()
            self._loaders[loader] = _Loader(self._node, source, iter(epochs))
            if self._thread is None:
                opens = NewOpens(self._segment)
                self._thread = threading.Thread(
                    target=self._run, args=(opens,), name="fanstore-orders", daemon=True
                )
                self._thread.start()

    def forget(self, loader: str) -> None:
        """Has nothing more brought for a loader."""
        with self._lock:
            if loader in self._loaders:
                self._loaders[loader].end()

    def figures(self) -> dict[str, Any]:
        """Returns the loaders and what was foreseen of their opens."""
        with self._lock:
            found = {name: each.figures() for name, each in self._loaders.items()}
        return {"loaders": found, "problem": self.problem} if found else {}

    def stop(self) -> None:
        """Ends the thread. To be called before the node is stopped."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_END_WAIT_S)
        with self._lock:
            for each in self._loaders.values():
                each.end()

    def _run(self, opens: NewOpens) -> None:
        quiet = 0
        try:
            while not self._stopping.wait(_LOOK_S if quiet < _IDLE_LOOKS else _IDLE_LOOK_S):
                found = opens.take()
                quiet = 0 if found else quiet + 1
                with self._lock:
                    self._note(found)
        except (FanstoreError, OSError) as error:
            self.problem = str(error)
            print(f"fanstore: prefetching ends: {error}", file=sys.stderr, flush=True)

    def _note(self, found: dict[int, Any]) -> None:
        for loader in self._loaders.values():
            if loader.current is not None and loader.current.expected.mount in found:
                loader.note(found[loader.current.expected.mount])
