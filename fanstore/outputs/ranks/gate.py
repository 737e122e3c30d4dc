"""Stopping all operations of all ranks, for what cannot be done name by name.

Every operation passes its rank's gate. A rank that freezes has the gates of all ranks closed; when
they are and whoever was inside has left, it alone changes names. Waits are bounded; a gate opens
when the rank that closed it is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from fanstore.outputs.model.entries import failure
from fanstore.outputs.ranks.asking import ask_each
from fanstore.peers.interface import Peers

FREEZE_WAIT_S = 10.0
_PASSAGE_WAIT_S = 60.0


class Busy:
    """Counts the operations on the names of this rank that are under way, its own clients' or other
    ranks': programs change no names themselves meanwhile. on_busy: called before the first begins,
    and when none is left."""

    def __init__(self, on_busy: Callable[[bool], None] = lambda _: None) -> None:
        self._on_busy = on_busy
        self._count = 0

    def __enter__(self) -> None:
        """Notes that one more operation begins."""
        self._count += 1
        if self._count == 1:
            self._on_busy(True)

    def __exit__(self, *_: object) -> None:
        """Notes that one of the operations has ended."""
        self._count -= 1
        if self._count == 0:
            self._on_busy(False)

    def during(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that does the same, and counts while it does, or while its coroutine
        runs."""

        async def rest(busy: contextlib.ExitStack, result: Awaitable[Any]) -> Any:
            with busy:
                return await result

        def counted(*args: Any) -> Any:
            with contextlib.ExitStack() as busy:
                busy.enter_context(self)
                result = function(*args)
                return rest(busy.pop_all(), result) if inspect.isawaitable(result) else result

        return counted


@dataclass
class _Passage:
    """One operation's way through the gate; what it calls on its way need not pass again. alone:
    all gates are closed behind it."""

    alone: bool
    inside: bool = True


_passage: ContextVar[_Passage | None] = ContextVar("_passage", default=None)


@contextlib.contextmanager
def _entered(alone: bool = False) -> Iterator[None]:
    passage = _Passage(alone)
    reset = _passage.set(passage)
    try:
        yield
    finally:
        passage.inside = False  # for tasks and callbacks made inside, which keep this context
        _passage.reset(reset)


class Gate:
    """The gate of one rank, through which every operation passes. on_frozen: called when it is
    closed and when it is opened. busy: is told of each that is inside, and while it is closed."""

    def __init__(
        self,
        peers: Peers,
        on_frozen: Callable[[bool], None] = lambda _: None,
        busy: Busy | None = None,
    ) -> None:
        self._peers = peers
        self._on_frozen = on_frozen
        self._busy = busy or Busy()
        self._tokens = itertools.count(1)
        self._inside = 0
        self._frozen_by: tuple[int, int] | None = None  # rank, token
        self._until_thaw = contextlib.ExitStack()
        self._changed = asyncio.Event()  # set, and replaced, at each change
        peers.serve("gate.freeze", self._freeze)
        peers.serve("gate.thaw", self._thaw)
        peers.on_lost(self._lost)

    @property
    def is_open(self) -> bool:
        """Whether an operation could pass at once."""
        return self._frozen_by is None

    @property
    def is_alone(self) -> bool:
        """Whether the caller has closed all gates, and so must not wait for anybody who is held up
        by them."""
        passage = _passage.get()
        return passage is not None and passage.inside and passage.alone

    @contextlib.asynccontextmanager
    async def passage(self, awaited: bool = False) -> AsyncIterator[None]:
        """Goes around an operation. awaited: others that are inside may wait for its end, so it may
        follow them in. Raises EIO when the gate stays closed for too long."""
        around = _passage.get()
        if around is not None and around.inside:
            yield
            return
        await self._until(
            lambda: self._frozen_by is None or (awaited and self._inside > 0),
            _PASSAGE_WAIT_S,
            errno.EIO,
        )
        self._inside += 1
        try:
            with self._busy, _entered():
                yield
        finally:
            self._inside -= 1
            self._notify()

    @contextlib.asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Goes around what needs to be alone; not to be used inside a passage. Raises EBUSY when
        the operations under way do not come to an end."""
        token = next(self._tokens)
        ranks = [r for r in range(self._peers.world_size) if not self._peers.is_lost(r)]
        closed: list[int] = []
        try:
            # The lowest rank first: of two that freeze at once, whoever gets that gets the others.
            for some in (ranks[:1], ranks[1:]):
                closed += some  # also when it fails: it may have closed all the same
                await ask_each(self._peers, some, lambda _: ("gate.freeze", token))
            with _entered(alone=True):
                yield
        finally:
            for rank in closed:
                self._peers.tell(rank, "gate.thaw", token)

    async def _freeze(self, rank: int, token: int) -> None:
        await self._until(lambda: self._frozen_by is None, FREEZE_WAIT_S, errno.EBUSY)
        if self._peers.is_lost(rank):  # while it waited: nobody would thaw
            raise failure(errno.EIO)
        self._frozen_by = (rank, token)
        self._until_thaw.enter_context(self._busy)
        self._until_thaw.callback(self._on_frozen, False)
        self._on_frozen(True)
        try:
            await self._until(lambda: self._inside == 0, FREEZE_WAIT_S, errno.EBUSY)
        except OSError:
            self._thaw(rank, token)
            raise

    def _thaw(self, rank: int, token: int) -> None:
        if self._frozen_by == (rank, token):
            self._frozen_by = None
            self._until_thaw.close()
            self._notify()

    def _lost(self, rank: int) -> None:
        if self._frozen_by is not None and self._frozen_by[0] == rank:
            self._thaw(*self._frozen_by)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _until(self, condition: Callable[[], bool], seconds: float, error: int) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not condition():
            left = deadline - loop.time()
            if left <= 0:
                raise failure(error)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)


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
