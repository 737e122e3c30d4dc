"""Copies of other ranks' files on this node, fetched when a program first opens them."""

from __future__ import annotations

import asyncio
import errno
import os
from concurrent.futures import Executor

from fanstore.outputs.files import files
from fanstore.outputs.model.entries import Entry, failure
from fanstore.rank_calls.peers import Peers

CHUNK_BYTES = 1 << 20
KEPT_BYTES = 1 << 30
_CHUNKS_A_FILE = 4
_CHUNKS_AT_ONCE = 16

_File = tuple[int, int]  # a rank, and an inode number on it
_Version = tuple[int, int, int, int]


class Copies:
    """The copies on this node, in a directory that it creates: of each file the version that was
    read last. When they exceed KEPT_BYTES, removes those that were read longest ago."""

    def __init__(self, directory: str, peers: Peers, executor: Executor) -> None:
        os.mkdir(directory, 0o700)
        self._directory = os.fsencode(directory)
        self._peers = peers
        self._executor = executor
        self._chunks = asyncio.Semaphore(_CHUNKS_AT_ONCE)
        self._fetches: dict[tuple[_File, _Version], asyncio.Task[bytes]] = {}
        self._have: dict[_File, _Version] = {}

    async def fetch(self, mount: int, path: bytes, entry: Entry) -> bytes:
        """Returns the path of a copy of this version of a file. Raises OSError; ESTALE if the file
        has changed since."""
        file, version = (entry.rank, entry.inode), entry.version
        if self._have.get(file) == version:
            self._have[file] = self._have.pop(file)  # moves it to the end: it was read last
            return self._path(file)
        task = self._fetches.get((file, version))
        if task is None:
            task = asyncio.get_running_loop().create_task(self._copy(mount, path, entry))
            task.add_done_callback(lambda _: self._fetches.pop((file, version), None))
            self._fetches[file, version] = task
        return await asyncio.shield(task)

    def take(self, entry: Entry, to: bytes) -> bool:
        """Moves a copy of this version to another path of its file system. Returns whether there
        was a copy."""
        file = entry.rank, entry.inode
        if self._have.get(file) != entry.version:
            return False
        del self._have[file]
        os.rename(self._path(file), to)
        return True

    def _path(self, file: _File) -> bytes:
        return b"%s/%d.%d" % (self._directory, *file)

    async def _copy(self, mount: int, path: bytes, entry: Entry) -> bytes:
        file = entry.rank, entry.inode
        temporary = b"%s.%d.part" % (self._path(file), entry.attr.ctime_ns)
        try:
            with open(temporary, "wb") as stream:
                stream.truncate(entry.attr.size)
            await self._fill(mount, path, entry, temporary)
            now = (await self._peers.call(entry.rank, "tree.look_for", mount, path)).entry
            if now is None or now.hidden or now.version != entry.version:
                raise failure(errno.ESTALE, path)
            files.set_attr(temporary, entry.attr)
            os.rename(temporary, self._path(file))
        except BaseException:
            files.unlink(temporary)
            raise
        self._have[file] = entry.version
        self._leave_room()
        return self._path(file)

    def _leave_room(self) -> None:
        """Removes the copies that were read longest ago. A program that has one open can continue
        reading it."""
        total = sum(size for _, size, _, _ in self._have.values())
        for file, (_, size, _, _) in list(self._have.items())[:-1]:
            if total <= KEPT_BYTES:
                return
            files.unlink(self._path(file))
            del self._have[file]
            total -= size

    async def _fill(self, mount: int, path: bytes, entry: Entry, to: bytes) -> None:
        """Fetches all chunks of a file, several at a time."""
        loop, total = asyncio.get_running_loop(), entry.attr.size
        offsets = iter(range(0, total, CHUNK_BYTES))

        async def work() -> None:
            for offset in offsets:
                size = min(CHUNK_BYTES, total - offset)
                async with self._chunks:
                    data = await self._peers.call(
                        entry.rank, "tree.read", mount, path, offset, size
                    )
                    if len(data) != size:
                        raise failure(errno.ESTALE)
                    await loop.run_in_executor(self._executor, files.write, to, data, offset)

        workers = [asyncio.ensure_future(work()) for _ in range(_CHUNKS_A_FILE)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
