"""Holds names that are about to change, so that only one rank changes a name at a time."""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fanstore.outputs.model.entries import failure
from fanstore.outputs.ranks.trees import Seen, Trees
from fanstore.rank_calls.peers import Peers

Name = tuple[int, bytes]  # a mount, and a path in it
Claim = tuple[int, bool]  # the rank that will have the entry, and whether it is a directory


class Holds:
    """The names that this rank keeps, each held by at most one operation of any rank. Also holds
    names on the ranks that keep them."""

    def __init__(self, peers: Peers, trees: Trees) -> None:
        self._peers = peers
        self._trees = trees
        self._held: dict[Name, deque[tuple[int, int, asyncio.Future[None]]]] = {}
        self._tokens = itertools.count()
        peers.serve("name.hold", self._hold)
        peers.serve("name.release", self._release)
        peers.on_lost(self._lost)

    @asynccontextmanager
    async def of(
        self, names: list[tuple[int, Name]], claim: Claim | None = None
    ) -> AsyncIterator[dict[Name, Seen]]:
        """Holds names, given with the ranks that keep them. Yields what those ranks know about each
        name. claim: for a name without an entry, the pointer to make first."""
        token = next(self._tokens)
        taken: list[tuple[int, Name]] = []
        seen: dict[Name, Seen] = {}
        try:
            # In the same order on all ranks, so that they do not wait for each other.
            for keeper, name in sorted(set(names), key=lambda each: each[1]):
                taken.append((keeper, name))
                seen[name] = await self._peers.call(keeper, "name.hold", name, token, claim)
            yield seen
        finally:
            for keeper, name in taken:
                self._peers.tell(keeper, "name.release", name, token)

    async def _hold(self, rank: int, name: Name, token: int, claim: Claim | None) -> Seen:
        waiting = self._held.setdefault(name, deque())
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append((rank, token, turn))
        if len(waiting) > 1:
            await turn
        if self._peers.is_lost(rank):
            raise failure(errno.EIO, name[1])
        seen = self._trees.look(*name)
        if claim is not None and seen == Seen():
            self._trees.claim(*name, *claim)
        return seen

    def _release(self, rank: int, name: Name, token: int) -> None:
        waiting = self._held.get(name, deque())
        for at, each in enumerate(waiting):
            if each[:2] == (rank, token):
                del waiting[at]
                if at == 0:
                    self._next(name)
                return

    def _next(self, name: Name) -> None:
        waiting = self._held[name]
        if not waiting:
            del self._held[name]
        elif not waiting[0][2].done():
            waiting[0][2].set_result(None)

    def _lost(self, rank: int) -> None:
        for name, waiting in list(self._held.items()):
            first = waiting[0][0]
            for each in [each for each in waiting if each[0] == rank]:
                waiting.remove(each)
            if first == rank:
                self._next(name)
