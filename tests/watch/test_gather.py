"""All ranks are asked at once, and none keeps the others' answers waiting."""

from __future__ import annotations

import asyncio
from typing import Any

from fanstore.messages.job import AbsentRank
from fanstore.messages.message import Message
from fanstore.rank_calls.peers import Peers
from fanstore.watch.gather import Gatherer

HOSTS = ["a", "b", "c"]


class Answer(Message):
    """What a rank answers."""

    rank: int
    host: str
    state: str


class FakePeers(Peers):
    """Peers of which some are lost or never answer."""

    def __init__(self) -> None:
        super().__init__(0, len(HOSTS))
        self.hung: dict[int, asyncio.Event] = {}
        self.lost: set[int] = set()
        self.calls = [0] * len(HOSTS)

    async def call(self, rank: int, name: str, *args: Any) -> Any:
        self.calls[rank] += 1
        if rank in self.hung:
            await self.hung[rank].wait()
        return Answer(rank=rank, host=HOSTS[rank], state="serving")

    def is_lost(self, rank: int) -> bool:
        return rank in self.lost


def test_every_rank_answers() -> None:
    async def ask() -> None:
        rows = await Gatherer[Answer](FakePeers(), HOSTS, "what", 10.0).ask(5.0)
        assert [(row.rank, row.host) for row in rows] == [(0, "a"), (1, "b"), (2, "c")]
        assert all(isinstance(row, Answer) for row in rows)

    asyncio.run(ask())


def test_lost_and_hung_ranks_are_named_and_not_asked_again() -> None:
    async def ask() -> None:
        peers = FakePeers()
        peers.lost, peers.hung = {2}, {1: asyncio.Event()}
        gatherer = Gatherer[Answer](peers, HOSTS, "what", 10.0)
        for _ in range(3):
            rows = await gatherer.ask(0.01)
            states = [row.state for row in rows]
            assert states == ["serving", "not answering", "lost"]
            assert isinstance(rows[1], AbsentRank) and rows[1].silent_s is not None
        assert peers.calls == [3, 1, 0]
        peers.hung.pop(1).set()
        assert [row.state for row in await gatherer.ask(5.0)][1] == "serving"

    asyncio.run(ask())


def test_two_watchers_share_one_question() -> None:
    async def ask() -> None:
        peers = FakePeers()
        peers.hung = {rank: asyncio.Event() for rank in range(3)}
        gatherer = Gatherer[Answer](peers, HOSTS, "what", 10.0)
        both = asyncio.gather(gatherer.ask(5.0), gatherer.ask(5.0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for event in peers.hung.values():
            event.set()
        for rows in await both:
            assert [row.state for row in rows] == ["serving"] * 3
        assert peers.calls == [1, 1, 1]

    asyncio.run(ask())
