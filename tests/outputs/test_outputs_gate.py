"""The gate of a rank that somebody wanted to close who is lost."""

from __future__ import annotations

import asyncio

import pytest
from output_ranks import FakePeers

from fanstore.outputs.ranks.gate import Gate


@pytest.mark.parametrize("waiting", [False, True])
def test_a_gate_is_open_when_who_closed_it_is_lost(waiting: bool) -> None:
    """Also when it was lost while it waited for another to open it."""

    async def scene() -> None:
        net: list[FakePeers] = []
        net += [FakePeers(rank, net) for rank in range(3)]
        gate = Gate(net[0])
        if waiting:
            await net[1].call(0, "gate.freeze", 1)
        freeze = asyncio.ensure_future(net[2].call(0, "gate.freeze", 1))
        for _ in range(10):
            await asyncio.sleep(0)
        assert freeze.done() != waiting and not gate.is_open
        net[0].lose(2)
        if waiting:
            net[1].tell(0, "gate.thaw", 1)
        await asyncio.wait([freeze])
        assert gate.is_open

    asyncio.run(asyncio.wait_for(scene(), 60.0))
