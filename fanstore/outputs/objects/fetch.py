"""Copies of other ranks' objects on this node, fetched when a program first opens them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import Executor

from fanstore.outputs.model.entries import Attr, Changes, Entry, failure
from fanstore.outputs.objects import files
from fanstore.peers.interface import Peers

CHUNK_BYTES = 1 << 20
_CHUNKS_A_FILE = 4
_CHUNKS_AT_ONCE = 16


class Copies:
    """The copies on this node, in `directory`, which it makes; and which ranks have copies of this
    rank's objects.

    An object that is gone from its owner is gone: who asks for it, or was fetching it, gets
    FileNotFoundError.
    """

    def __init__(self, directory: str, peers: Peers, executor: Executor) -> None:
        os.mkdir(directory, 0o700)
        self._prefix = os.fsencode(directory) + b"/"
        self._peers = peers
        self._executor = executor
        self._chunks = asyncio.Semaphore(_CHUNKS_AT_ONCE)
        self._fetches: dict[int, asyncio.Task[bytes]] = {}
        self._have: dict[int, Attr] = {}
        self._discarded: set[int] = set()
        self._readers: dict[int, set[int]] = {}
        self.counts = {"fetched": 0, "fetched_bytes": 0}
        peers.serve("copy.discard", lambda _, object_id: self._discard(object_id))

    def serve(
        self, path_of: Callable[[int], bytes], placed_path: Callable[[int], bytes | None]
    ) -> None:  # fmt: skip
        """Lets other ranks read this rank's objects, and tells them which objects this rank placed
        in the output directory, and where."""

        async def read(rank: int, object_id: int, offset: int, size: int) -> bytes:
            self._readers.setdefault(object_id, set()).add(rank)
            try:
                return await self._apart(_read, path_of(object_id), offset, size)
            except FileNotFoundError:
                self._readers.pop(object_id, None)
                raise

        self._peers.serve("object.read", read)
        self._peers.serve("object.placed", lambda _, object_id: placed_path(object_id))

    def discarded(self, object_id: int) -> None:
        """Tells the ranks that have copies of an object of this rank that it is gone."""
        for rank in self._readers.pop(object_id, ()):
            self._peers.tell(rank, "copy.discard", object_id)

    async def local_path(self, entry: Entry) -> bytes:
        """Returns the path of a file on this node with the bytes and attributes of an entry. Raises
        OSError: EIO where the owner is lost, and nobody placed the file in the output directory
        before."""
        object_id = entry.object_id
        if object_id not in self._have:
            task = self._fetches.get(object_id)
            if task is None:
                task = asyncio.get_running_loop().create_task(self._fetch(entry))
                task.add_done_callback(lambda _: self._fetches.pop(object_id, None))
                self._fetches[object_id] = task
            path = await asyncio.shield(task)
            if object_id not in self._have:
                return path
        if self._have[object_id] != entry.attr:
            files.set_attr(self._path(object_id), entry.attr)
            self._have[object_id] = entry.attr
        return self._path(object_id)

    def changes_of(self, object_id: int) -> Changes | None:
        """Returns what programs changed of the attributes of a copy, which is to be done to the
        object itself. None: nothing, or there is no copy."""
        known = self._have.get(object_id)
        if known is None:
            return None
        found = files.facts_of(self._path(object_id))
        mode = stat.S_IMODE(found.st_mode)
        timed = found.st_mtime_ns != known.mtime_ns
        changes = Changes(
            mode=mode if mode != stat.S_IMODE(known.mode) else None,
            uid=found.st_uid if os.geteuid() == 0 and found.st_uid != known.uid else None,
            gid=found.st_gid if os.geteuid() == 0 and found.st_gid != known.gid else None,
            atime_ns=found.st_atime_ns if timed else None,
            mtime_ns=found.st_mtime_ns if timed else None,
        )
        return None if changes == Changes() else changes

    def _path(self, object_id: int) -> bytes:
        return self._prefix + b"%x" % object_id

    async def _fetch(self, entry: Entry) -> bytes:
        try:
            return await self._copy(entry)
        except OSError:
            if not self._peers.is_lost(entry.owner):
                raise
        return await self._placed(entry)

    async def _copy(self, entry: Entry) -> bytes:
        object_id = entry.object_id
        path = self._path(object_id)
        temporary = path + b".part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(temporary, flags, 0o600))
        try:
            os.truncate(temporary, entry.attr.size)
            await self._fill(entry, temporary)
            if object_id in self._discarded:
                raise failure(errno.ENOENT)
            files.set_attr(temporary, entry.attr)
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        finally:
            self._discarded.discard(object_id)
        self._have[object_id] = entry.attr
        self.counts["fetched"] += 1
        self.counts["fetched_bytes"] += entry.attr.size
        return path

    async def _fill(self, entry: Entry, path: bytes) -> None:
        """Fetches all chunks, a few at a time."""
        chunks = _chunks(entry.attr.size)

        async def work() -> None:
            for offset, size in chunks:
                async with self._chunks:
                    data = await self._peers.call(
                        entry.owner, "object.read", entry.object_id, offset, size
                    )
                    if len(data) != size:
                        raise failure(errno.EIO)
                    await self._apart(_write, path, data, offset)

        workers = [asyncio.ensure_future(work()) for _ in range(_CHUNKS_A_FILE)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()

    async def _placed(self, entry: Entry) -> bytes:
        """Returns the path of the file in the output directory, where any rank knows that it is
        there."""
        for rank in range(self._peers.world_size):
            if self._peers.is_lost(rank):
                continue
            with contextlib.suppress(OSError):
                path = await self._peers.call(rank, "object.placed", entry.object_id)
                if path is not None and os.lstat(path).st_size == entry.attr.size:
                    return bytes(path)
        raise failure(errno.EIO)

    def _discard(self, object_id: int) -> None:
        if object_id in self._fetches:
            self._discarded.add(object_id)
        if self._have.pop(object_id, None) is not None:
            self._executor.submit(files.unlink, self._path(object_id))

    async def _apart(self, function: Callable[..., bytes], *args: object) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)


def _chunks(size: int) -> Iterator[tuple[int, int]]:
    """Yields the offset and size of each chunk; one of no bytes for an empty file, so that its
    owner knows who has a copy."""
    for offset in range(0, max(size, 1), CHUNK_BYTES):
        yield offset, min(CHUNK_BYTES, size - offset)


def _read(path: bytes, offset: int, size: int) -> bytes:
    fd = files.open_unasked(path)
    try:
        return os.pread(fd, size, offset)
    finally:
        os.close(fd)


def _write(path: bytes, data: bytes, offset: int) -> bytes:
    """Writes all of `data` and returns b"". Zeros are left out: the hole that is there reads as
    such. Opens the file for that: who waits for this may give up, and it goes on."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        rest = memoryview(data if data.count(0) != len(data) else b"")
        while rest:
            written = os.pwrite(fd, rest, offset)
            rest, offset = rest[written:], offset + written
        return bytes(rest)
    finally:
        os.close(fd)
