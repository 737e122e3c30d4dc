"""Asks all ranks of a job for their figures. A rank that does not answer delays the watchers only
briefly."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from fanstore.messages.job import LOST, SILENT, AbsentRank
from fanstore.messages.message import Message
from fanstore.rank_calls.peers import Peers

A = TypeVar("A", bound=Message)

# A watcher's call is given up long before a rank that owes an answer counts as lost: watching a job
# must not make the job drop a slow rank.
_GIVE_UP_S = 2.0
_GOOD_FOR_S = 3.0
_LATE_PATIENCE_S = 0.05


class _Asked(Generic[A]):
    """The state of one rank. call: the pending call. answered_s: when `answer` came, by the loop's
    clock. since_s: when the unanswered question was first asked. late: the last question got no
    answer in time."""

    def __init__(self) -> None:
        self.call: asyncio.Task[None] | None = None
        self.answer: A | None = None
        self.answered_s = 0.0
        self.since_s = 0.0
        self.late = False


class Gatherer(Generic[A]):
    """Asks all ranks one question, for any number of watchers. Runs in the event loop of
    `peers`."""

    def __init__(self, peers: Peers, hosts: Sequence[str], name: str, deadline_s: float) -> None:
        """name: the function that every rank serves, which returns an A. hosts: the node of each
        rank. deadline_s: how long a rank may take for a request of any kind."""
        self._peers = peers
        self._hosts = hosts
        self._name = name
        self._give_up_s = min(_GIVE_UP_S, deadline_s)
        self._asked: list[_Asked[A]] = [_Asked() for _ in hosts]

    async def ask(self, patience_s: float) -> list[A | AbsentRank]:
        """Returns the answers of all ranks, in their order, that came within `patience_s` or just
        before; an AbsentRank for each other rank. Waits only briefly for a rank that was silent
        before."""
        for rank in range(len(self._asked)):
            self._begin(rank)
        await self._wait(patience_s, late=False)
        await self._wait(min(patience_s, _LATE_PATIENCE_S), late=True)
        return [self._row(rank) for rank in range(len(self._asked))]

    async def _wait(self, patience_s: float, late: bool) -> None:
        calls = [each.call for each in self._asked if each.call is not None and each.late == late]
        if calls:
            await asyncio.wait(calls, timeout=patience_s)

    def _begin(self, rank: int) -> None:
        """Asks a rank, unless it still owes an answer, because unread questions would pile up
        there."""
        asked = self._asked[rank]
        if asked.call is not None or self._peers.is_lost(rank):
            return
        if not asked.late:
            asked.since_s = asyncio.get_running_loop().time()
        asked.call = asyncio.get_running_loop().create_task(self._call(rank, asked))

    async def _call(self, rank: int, asked: _Asked[A]) -> None:
        try:
            call = self._peers.call(rank, self._name)
            asked.answer = await asyncio.wait_for(call, self._give_up_s)
            asked.answered_s = asyncio.get_running_loop().time()
            asked.late = False
        except (OSError, asyncio.TimeoutError):
            asked.late = True
        finally:
            asked.call = None

    def _row(self, rank: int) -> A | AbsentRank:
        asked, now_s, host = self._asked[rank], asyncio.get_running_loop().time(), self._hosts[rank]
        if self._peers.is_lost(rank):
            return AbsentRank(rank=rank, host=host, state=LOST)
        if asked.answer is None or now_s - max(asked.answered_s, asked.since_s) > _GOOD_FOR_S:
            silent_s = round(now_s - asked.since_s, 1)
            return AbsentRank(rank=rank, host=host, state=SILENT, silent_s=silent_s)
        return asked.answer
