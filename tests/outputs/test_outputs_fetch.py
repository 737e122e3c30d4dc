"""Copies of other ranks' objects: whole, fetched once, gone with their objects; lost owners."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import stat
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from output_mail import Net
from until import until

from fanstore.outputs.model.entries import Attr, Entry
from fanstore.outputs.objects import files
from fanstore.outputs.objects.fetch import CHUNK_BYTES
from fanstore.outputs.objects.objects import ObjectStore

LIMIT_S = 30.0
SIZES = (0, 1, 4096, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 7 * CHUNK_BYTES + 12345)


class Rank:
    """A rank's objects and copies."""

    def __init__(self, net: Net, rank: int, path: Path, executor: ThreadPoolExecutor) -> None:
        self.path = path / str(rank)
        self.path.mkdir()
        self.store = ObjectStore(str(self.path), net.peers[rank], executor)
        self.local_path = self.store.local_path
        self.placed: dict[int, bytes] = {}
        net.peers[rank].serve("object.placed", lambda _, object_id: self.placed.get(object_id))

    def make(self, data: bytes, mode: int = 0o640) -> Entry:
        """A published object."""
        object_id = self.store.new_id()
        self.store.create(object_id, 0o600)
        path = self.store.path(object_id)
        Path(os.fsdecode(path)).write_bytes(data)
        os.utime(path, ns=(1_000_000_007, 2_000_000_009))
        os.chmod(path, mode)
        return Entry(object_id, Attr.of(os.lstat(path)))

    def discard(self, entry: Entry) -> None:
        self.store.discard(entry.object_id)

    def copied(self) -> list[str]:
        return sorted(os.listdir(self.path / "copies"))


class World:
    def __init__(self, net: Net, path: Path, executor: ThreadPoolExecutor) -> None:
        self.net = net
        self.ranks = [Rank(net, n, path, executor) for n in range(len(net.peers))]


def run(path: Path, program: Callable[[World], Awaitable[None]], count: int = 2) -> None:
    async def main() -> None:
        with ThreadPoolExecutor(4) as executor:
            async with Net(count) as net:
                await asyncio.wait_for(program(World(net, path, executor)), LIMIT_S)

    asyncio.run(main())


def some_bytes(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_copies_are_whole_and_like_the_object(tmp_path: Path) -> None:
    async def program(world: World) -> None:
        owner, reader = world.ranks
        for size in SIZES:
            entry = owner.make(some_bytes(size), 0o600 + size % 0o100)
            path = await reader.local_path(entry)
            assert Path(os.fsdecode(path)).read_bytes() == some_bytes(size)
            found = os.lstat(path)
            assert found.st_mode == entry.attr.mode
            assert (found.st_mtime_ns, found.st_size) == (entry.attr.mtime_ns, size)
            assert path.startswith(os.fsencode(reader.path))

    run(tmp_path, program)


def test_a_copy_is_fetched_once_and_follows_its_attributes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, offsets = files.read, []

    def noting(path: bytes, offset: int, size: int) -> bytes:
        offsets.append(offset)
        return read(path, offset, size)

    async def program(world: World) -> None:
        owner, reader = world.ranks
        monkeypatch.setattr(files, "read", noting)
        entry = owner.make(some_bytes(3 * CHUNK_BYTES))
        paths = await asyncio.gather(*(reader.local_path(entry) for _ in range(20)))
        assert len(set(paths)) == 1
        later = replace(entry, attr=entry.attr._replace(mode=stat.S_IFREG | 0o400, mtime_ns=5))
        assert await reader.local_path(later) == paths[0]
        found = os.lstat(paths[0])
        assert (found.st_mode, found.st_mtime_ns) == (stat.S_IFREG | 0o400, 5)
        assert sorted(offsets) == [0, CHUNK_BYTES, 2 * CHUNK_BYTES]

    run(tmp_path, program)


def test_zeros_take_no_room(tmp_path: Path) -> None:
    async def program(world: World) -> None:
        owner, reader = world.ranks
        data = bytes(9 * CHUNK_BYTES) + b"end"
        path = await reader.local_path(owner.make(data))
        assert Path(os.fsdecode(path)).read_bytes() == data
        assert os.stat(path).st_blocks * 512 <= CHUNK_BYTES

    run(tmp_path, program)


def test_an_object_that_goes_takes_its_copies_along(tmp_path: Path) -> None:
    async def program(world: World) -> None:
        owner, *readers = world.ranks
        entry, other = owner.make(b"gone" * 1000), owner.make(b"stays")
        for reader in readers[:2]:
            await reader.local_path(entry)
            await reader.local_path(other)
        owner.discard(entry)
        for reader in readers[:2]:
            await until(lambda reader=reader: reader.copied() == [f"{other.object_id:x}"])
        with pytest.raises(FileNotFoundError):
            await readers[2].local_path(entry)
        assert readers[2].copied() == []

    run(tmp_path, program, 4)


def test_an_object_that_goes_while_it_is_fetched_leaves_nothing(tmp_path: Path) -> None:
    async def program(world: World) -> None:
        owner, reader = world.ranks
        entry = owner.make(some_bytes(40 * CHUNK_BYTES))
        fetch = asyncio.ensure_future(reader.local_path(entry))
        await until(lambda: bool(reader.copied()))
        owner.discard(entry)
        with pytest.raises(FileNotFoundError):
            await fetch
        assert reader.copied() == []

    run(tmp_path, program)


def test_an_object_that_is_shorter_than_its_entry_is_eio(tmp_path: Path) -> None:
    async def program(world: World) -> None:
        owner, reader = world.ranks
        entry = owner.make(some_bytes(2 * CHUNK_BYTES))
        os.truncate(owner.store.path(entry.object_id), CHUNK_BYTES + 1)
        with pytest.raises(OSError) as caught:
            await reader.local_path(entry)
        assert caught.value.errno == errno.EIO and reader.copied() == []

    run(tmp_path, program)


def test_a_full_disk_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def program(world: World) -> None:
        owner, reader = world.ranks
        entry = owner.make(some_bytes(5 * CHUNK_BYTES))
        real = os.pwrite

        def short(fd: int, data: bytes, offset: int) -> int:
            if offset >= 3 * CHUNK_BYTES:
                raise OSError(errno.ENOSPC, "full")
            return real(fd, data, offset)

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", short)
            with pytest.raises(OSError) as caught:
                await reader.local_path(entry)
        assert caught.value.errno == errno.ENOSPC and reader.copied() == []
        path = await reader.local_path(entry)  # there is room again
        assert Path(os.fsdecode(path)).read_bytes() == some_bytes(5 * CHUNK_BYTES)

    run(tmp_path, program)


def test_who_no_longer_waits_does_not_end_the_fetch_of_others(tmp_path: Path) -> None:
    async def program(world: World) -> None:
        owner, reader = world.ranks
        entry = owner.make(some_bytes(20 * CHUNK_BYTES))
        first = asyncio.ensure_future(reader.local_path(entry))
        second = asyncio.ensure_future(reader.local_path(entry))
        await until(lambda: bool(reader.copied()))
        first.cancel()
        assert Path(os.fsdecode(await second)).stat().st_size == 20 * CHUNK_BYTES

    run(tmp_path, program)


# ---- lost owners ----


def test_of_a_lost_owner_what_was_fetched_stays(tmp_path: Path) -> None:
    async def program(world: World) -> None:
        owner, reader, _ = world.ranks
        kept, gone = owner.make(b"kept"), owner.make(b"gone")
        path = await reader.local_path(kept)
        world.net.mails[0].cut = True
        assert await reader.local_path(kept) == path
        with pytest.raises(OSError) as caught:
            await reader.local_path(gone)
        assert caught.value.errno == errno.EIO
        assert reader.copied() == [f"{kept.object_id:x}"]

    run(tmp_path, program, 3)


@pytest.mark.parametrize("home", [1, 2], ids=["own", "other"])
def test_of_a_lost_owner_what_was_placed_is_read_there(tmp_path: Path, home: int) -> None:
    async def program(world: World) -> None:
        owner, reader, _ = world.ranks
        entry = owner.make(some_bytes(30 * CHUNK_BYTES))
        placed = tmp_path / "placed"
        placed.write_bytes(some_bytes(30 * CHUNK_BYTES))
        world.ranks[home].placed[entry.object_id] = os.fsencode(placed)
        fetch = asyncio.ensure_future(reader.local_path(entry))
        await until(lambda: bool(reader.copied()))
        world.net.mails[0].cut = world.net.mails[0].dropped = True  # in the middle of it
        assert await fetch == os.fsencode(placed)
        assert reader.copied() == []
        placed.write_bytes(b"another's")
        with pytest.raises(OSError) as caught:
            await reader.local_path(entry)
        assert caught.value.errno == errno.EIO

    run(tmp_path, program, 3)


def test_fetching_asks_for_no_mode_and_moves_no_access_time(tmp_path: Path) -> None:
    async def program(world: World) -> None:
        owner, reader = world.ranks
        entry = owner.make(some_bytes(6 * CHUNK_BYTES), 0)
        path = await reader.local_path(entry)
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0
        found = os.lstat(owner.store.path(entry.object_id))
        assert stat.S_IMODE(found.st_mode) == 0 and found.st_atime_ns == entry.attr.atime_ns

    run(tmp_path, program)
