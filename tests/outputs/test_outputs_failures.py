"""Calls between ranks that fail, clients that do not wait, and ranks that are lost."""

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

from fanstore.outputs.model.wire import Op

_STEPS = [
    "reserve", "publish", "insert", "remove", "lock", "get", "close",
    "set_slot", "tables", "put_tables", "slot", "entry", "change",
]  # fmt: skip


@pytest.mark.parametrize("step", _STEPS)
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
        failed = 0
        for call in calls:
            cluster.ranks[0].peers.broken[f"home.{step}"] = 1
            result = await outcome(call())
            assert result in (0, errno.EIO, errno.ENOENT)
            failed += result == errno.EIO
            cluster.ranks[0].peers.broken.clear()
            await cluster.world.quiet()
        await usable(cluster)

    play(tmp_path, scene, size=3)


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
        one, lost = cluster.process(0), cluster.process(2)
        # Directories whose names are kept by the rank that stays.
        homes = cluster.ranks[0].operations.publisher.homes
        directory = next(
            name for name in (b"d%d" % n for n in range(99)) if not homes.rank(0, name)
        )
        await one.mkdir(directory)
        await one.mkdir(directory + b"/gone")
        await lost.open(directory + b"/draft", NEW)
        server = cluster.ranks[0].operations.home_server
        from fanstore.outputs.model.entries import Place

        await server.lock(2, Place(0, directory, b"held"), 77)
        await cluster.ranks[2].peers.call(0, "gate.freeze", 5)
        waiting = asyncio.create_task(outcome(one.write(directory + b"/held", b"free")))
        await cluster.world.quiet()
        assert not waiting.done()
        cluster.world.lose(2)
        assert await waiting == 0
        await one.write(directory + b"/draft", b"mine", os.O_EXCL)
        await cluster.process(1).write(b"in/after", b"")

    play(tmp_path, scene, size=3)


def test_names_of_a_lost_rank_fail_and_the_others_do_not(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        one = cluster.process(0)
        homes = cluster.ranks[0].operations.publisher.homes
        names = {homes.rank(0, b"d%d" % n): b"d%d" % n for n in range(40)}
        for name in names.values():
            await one.mkdir(name)
        top = homes.rank(0, b"")
        gone = next(rank for rank in range(4) if rank not in (0, top))
        file = await one.open(names[gone] + b"/f", NEW)
        cluster.world.lose(gone)
        assert await fails(one.write(names[gone] + b"/g", b"")) == errno.EIO
        assert await fails(one.stat(names[gone] + b"/g")) == errno.EIO
        assert await fails(one.close(file)) == errno.EIO
        assert cluster.ranks[0].log.seen[-1] == ("stranded", names[gone] + b"/f")
        for rank, name in names.items():
            if rank != gone:
                await one.write(name + b"/g", b"")
                await one.rename(name, name + b"-moved")

    play(tmp_path, scene, size=4)
