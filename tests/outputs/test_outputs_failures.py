"""Calls between ranks fail, and ranks are lost: all names can be used afterwards."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from namespace_scenes import NEW, delays, fails, outcome, play
from namespace_world import Cluster

from fanstore.outputs.model.entries import keeper_of
from fanstore.outputs.model.wire import Op

STEPS = ("unclaim", "point", "unlink", "rmdir", "move", "moved", "give", "know", "touch")


@pytest.mark.parametrize("step", STEPS)
def test_a_call_that_fails_leaves_nothing_behind(tmp_path: Path, step: str) -> None:
    """One call of one rank fails in each operation: that fails with EIO or goes on, and afterwards
    all names can be used."""

    async def scene(cluster: Cluster) -> None:
        process, other = cluster.process(0), cluster.process(1)
        await process.mkdir(b"d")
        await process.mkdir(b"d/e")
        await other.write(b"d/f", b"old")
        await other.write(b"in/g", b"old")
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: process.write(b"d/new", b"x"),
            lambda: process.write(b"d/f", b"x", os.O_APPEND),
            lambda: process.mkdir(b"in/dir"),
            lambda: process.rmdir(b"d/e"),
            lambda: process.rename(b"d/f", b"in/sub/f"),
            lambda: process.rename(b"in/g", b"in/h"),
            lambda: process.do(Op.TRUNCATE, b"in/h", size=1),
            lambda: process.do(Op.CHANGE, b"in/h", change=1, mode=0o600),
            lambda: process.unlink(b"in/h"),
        ]
        for call in calls:
            cluster.ranks[0].peers.broken[f"tree.{step}"] = 1
            assert await outcome(call()) in (0, errno.EIO, errno.ENOENT)
            cluster.ranks[0].peers.broken.clear()
            await cluster.world.quiet()
        await usable(cluster)

    play(tmp_path, scene, size=3, clean=False)


async def usable(cluster: Cluster) -> None:
    """Every name can be made and removed, by everybody."""
    for rank in range(len(cluster.ranks)):
        if rank in cluster.world.lost:
            continue
        process = cluster.process(rank)
        for name in (b"d/new", b"d/f", b"in/g", b"in/h", b"in/sub/f", b"d/e/x"):
            result = await outcome(process.write(name, b"now"))
            assert result in (0, errno.ENOENT), name
            if result == 0:
                assert await process.read(name) == b"now"
                await process.unlink(name)


@pytest.mark.parametrize("turns", [1, 3, 6, 10, 15, 25, 40])
def test_an_operation_goes_on_when_nobody_waits_for_it(tmp_path: Path, turns: int) -> None:
    async def scene(cluster: Cluster) -> None:
        process = cluster.process(0)
        await process.mkdir(b"d")
        for number in range(8):
            source, target = b"d/%d" % number, b"in/sub/%d" % number
            await process.write(source, b"kept")
            task = asyncio.create_task(process.rename(source, target))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        await cluster.world.quiet()
        assert await process.names(b"d") == []
        assert len(await process.names(b"in/sub")) == 8

    play(tmp_path, scene, size=4, delay=delays(turns, 3))


def test_what_a_lost_rank_held_is_free_again(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        one = cluster.process(0)
        await one.mkdir(b"d")
        await cluster.ranks[2].peers.call(0, "name.hold", (0, b"d/held"), 7, None)
        waiting = asyncio.create_task(outcome(one.write(b"d/held", b"free")))
        await cluster.world.quiet()
        assert not waiting.done()
        cluster.world.lose(2)
        assert await waiting == 0
        assert await one.read(b"d/held") == b"free"

    play(tmp_path, scene, size=3)


def test_names_of_a_lost_rank_fail_and_the_others_do_not(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        top = keeper_of(0, b"", 4)
        one, gone = [rank for rank in range(4) if rank != top][:2]
        for rank in range(4):
            await cluster.process(rank).mkdir(b"d%d" % rank)
        process = cluster.process(one)
        await cluster.process(gone).write(b"d%d/f" % one, b"lost")
        cluster.world.lose(gone)
        assert await fails(process.write(b"d%d/g" % gone, b"")) == errno.EIO
        assert await fails(process.stat(b"d%d/g" % gone)) == errno.EIO
        assert await fails(process.open(b"d%d/f" % one, os.O_RDONLY)) == errno.EIO
        for rank in {0, 1, 2, 3} - {gone}:
            await process.write(b"d%d/g" % rank, b"")
            await process.rename(b"d%d" % rank, b"d%d-moved" % rank)

    play(tmp_path, scene, size=4)


def test_what_a_lost_rank_had_placed_is_read_from_there(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        top = keeper_of(0, b"", 3)
        lost = next(rank for rank in range(3) if rank != top)
        await cluster.process(lost).write(b"f", b"placed")
        placed = tmp_path / "objects/output/0"
        placed.mkdir(parents=True)
        (placed / "f").write_bytes(b"placed")
        cluster.world.lose(lost)
        assert await cluster.process(top).read(b"f") == b"placed"
        assert await fails(cluster.process(top).open(b"f", NEW)) == errno.EIO

    play(tmp_path, scene, size=3)
