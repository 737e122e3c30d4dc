"""Copies of other ranks' objects on this node, fetched when a program first opens them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from concurrent.futures import Executor

from fanstore.outputs.model.entries import Attr, Changes, Entry, failure
from fanstore.outputs.objects import files
from fanstore.peers.interface import Peers

CHUNK_BYTES = 1 << 20
_CHUNKS_A_FILE = 4
_CHUNKS_AT_ONCE = 16


class Copies:
    """The copies on this node, in `directory`, which it makes.

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
        peers.serve("copy.discard", lambda _, object_id: self._discard(object_id))

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
        found = Attr.of(files.facts_of(self._path(object_id)))
        timed, is_root = found.mtime_ns != known.mtime_ns, os.geteuid() == 0
        changes = Changes(
            mode=stat.S_IMODE(found.mode) if found.mode != known.mode else None,
            uid=found.uid if is_root and found.uid != known.uid else None,
            gid=found.gid if is_root and found.gid != known.gid else None,
            atime_ns=found.atime_ns if timed else None,
            mtime_ns=found.mtime_ns if timed else None,
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
        object_id, path = entry.object_id, self._path(entry.object_id)
        temporary = path + b".part"
        try:
            with open(temporary, "wb") as stream:
                stream.truncate(entry.attr.size)
            await self._fill(entry, temporary)
            if self._fetches.get(object_id) is not asyncio.current_task():  # discarded meanwhile
                raise failure(errno.ENOENT)
            files.set_attr(temporary, entry.attr)
            os.rename(temporary, path)
        except BaseException:
            files.unlink(temporary)
            raise
        self._have[object_id] = entry.attr
        return path

    async def _fill(self, entry: Entry, path: bytes) -> None:
        """Fetches all chunks, a few at a time; one of no bytes of an empty file, so that its owner
        knows who has a copy."""
        loop, total = asyncio.get_running_loop(), entry.attr.size
        offsets = iter(range(0, max(total, 1), CHUNK_BYTES))

        async def work() -> None:
            for offset in offsets:
                size = min(CHUNK_BYTES, total - offset)
                async with self._chunks:
                    data = await self._peers.call(
                        entry.owner, "object.read", entry.object_id, offset, size
                    )
                    if len(data) != size:
                        raise failure(errno.EIO)
                    await loop.run_in_executor(self._executor, files.write, path, data, offset)

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
        self._fetches.pop(object_id, None)
        if self._have.pop(object_id, None) is not None:
            self._executor.submit(files.unlink, self._path(object_id))
