"""Whether operations on the names of this rank are under way, its own clients' or other ranks':
programs change no names themselves meanwhile."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from fanstore.peers.interface import Peers


class Busy:
    """Counts what is under way. on_busy: called before the first begins, and when none is left."""

    def __init__(self, on_busy: Callable[[bool], None] = lambda _: None) -> None:
        self._on_busy = on_busy
        self._count = 0

    def enter(self) -> None:
        """Notes that one more begins."""
        self._count += 1
        if self._count == 1:
            self._on_busy(True)

    def leave(self) -> None:
        """Notes that one has ended."""
        self._count -= 1
        if self._count == 0:
            self._on_busy(False)

    def during(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that does the same, and counts while it does, or while its coroutine
        runs."""

        async def rest(result: Awaitable[Any]) -> Any:
            try:
                return await result
            finally:
                self.leave()

        def counted(*args: Any) -> Any:
            self.enter()
            result = None
            try:
                result = function(*args)
            finally:
                if not inspect.isawaitable(result):
                    self.leave()
            return rest(result) if inspect.isawaitable(result) else result

        return counted


class ServingPeers:
    """The Peers of a rank that serves others in a way of its own: `around` returns, of a function,
    what is to be called in its place."""

    def __init__(self, peers: Peers, around: Callable[[Callable[..., Any]], Any]) -> None:
        self.rank = peers.rank
        self.world_size = peers.world_size
        self.call = peers.call
        self.tell = peers.tell
        self.is_lost = peers.is_lost
        self._peers = peers
        self._around = around

    def serve(self, name: str, function: Callable[..., Any]) -> None:
        """Answers calls of `name` by function(sender_rank, *args), which may be a coroutine."""
        self._peers.serve(name, self._around(function))

    def on_lost(self, callback: Callable[[int], None]) -> None:
        """Calls `callback` with each rank that is lost."""
        self._peers.on_lost(self._around(callback))
