"""The namespace of outputs on several ranks in one loop, and processes that use it."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from namespace_fakes import FakeDrafts, FakeInputs, FakeStore, Log, World

from fanstore.outputs.model.entries import Entry, failure, owner_of
from fanstore.outputs.model.wire import Answer, Op, Request, Where
from fanstore.outputs.namespace.operations import Operations

AT_FDCWD = -100


class Rank:
    """One rank, whole."""

    def __init__(
        self, world: World, rank: int, prefixes: Sequence[bytes], trees: Any, objects: Path
    ) -> None:
        self.world = world
        self.peers = world.ranks[rank]
        self.inputs = [FakeInputs(*pair) for pair in zip(prefixes, trees, strict=True)]
        self.store = FakeStore(objects, rank)
        self.drafts = FakeDrafts(self.store)
        self.log = Log()
        self.operations = Operations(self.peers, self.inputs, self.drafts, self.store)
        self.operations.publisher.observer = self.log
        self.drafts.publisher = self.operations.publisher


@dataclass
class Open:
    """A file that a process has open. object_id: 0 unless it may write."""

    fd: int
    object_id: int


class Process:
    """A client: system calls on paths in a mount, as the shim makes them. Paths relative to it."""

    def __init__(self, rank: Rank, pid: int = 0) -> None:
        self.rank = rank
        self.pid = pid or random.getrandbits(30)
        self.umask = os.umask(0o022)
        os.umask(self.umask)

    async def ask(self, op: int, path: bytes = b"", **fields: Any) -> Answer:
        """One request; a way out that leads back in is followed."""
        for _ in range(50):
            request = Request(op, path=path, pid=self.pid, peer_uid=os.getuid(), **fields)
            task = asyncio.ensure_future(self.rank.operations.run(request))
            answer = await asyncio.shield(task)  # goes on where the caller is cancelled
            prefix = self.rank.inputs[fields.get("view", 0)].prefixes[0]
            if answer.where != Where.ELSEWHERE or b"\0" in answer.text:
                return answer
            if answer.text != prefix and not answer.text.startswith(prefix + b"/"):
                return answer
            if self.rank.inputs[0].kind(answer.text[len(prefix) + 1 :]) != "missing":
                return answer
            path = answer.text[len(prefix) + 1 :]
        raise AssertionError("a way out that has no end")

    async def open(self, path: bytes, flags: int, mode: int = 0o666) -> Open:
        """open(2)."""
        for _ in range(100):
            answer = await self.ask(Op.OPEN, path, flags=flags, mode=mode)
            try:
                return await self._really(answer, flags)
            except FileNotFoundError:
                continue
        raise AssertionError("replaced again and again")

    async def _really(self, answer: Answer, flags: int) -> Open:
        kept = flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_NOFOLLOW)
        writes = flags & os.O_ACCMODE != os.O_RDONLY
        if answer.where == Where.CREATE:
            assert answer.entry is not None
            fresh = answer.entry.attr.mode & 0o7777
            fd = os.open(answer.text, kept | os.O_CREAT | os.O_EXCL, fresh)
            if not answer.fresh:
                os.fchmod(fd, fresh)
        elif answer.where in (Where.EXISTING, Where.CUT):
            cut = os.O_TRUNC if answer.where == Where.CUT else 0
            fd = os.open(answer.text, kept | cut | os.O_NONBLOCK)
        elif answer.where == Where.DIRECTORY:
            return Open(-1, 0)
        else:
            raise Outside(answer.text)
        assert answer.entry is not None
        return Open(fd, answer.entry.object_id if writes and answer.entry.is_file else 0)

    async def close(self, file: Open) -> bool:
        """close(2); whether all ranks can see it now."""
        if file.fd >= 0:
            os.close(file.fd)
        if not file.object_id or file.object_id not in self.rank.drafts.drafts:
            return True
        answer = await self.ask(Op.SETTLE, objects=(file.object_id,))
        return answer.where == Where.SETTLED

    async def write(self, path: bytes, data: bytes, flags: int = os.O_TRUNC) -> None:
        """Makes a file."""
        file = await self.open(path, os.O_WRONLY | os.O_CREAT | flags)
        os.write(file.fd, data)
        await self.close(file)

    async def read(self, path: bytes) -> bytes:
        """All of a file."""
        file = await self.open(path, os.O_RDONLY)
        data = b""
        while part := os.read(file.fd, 1 << 16):
            data += part
        await self.close(file)
        return data

    async def stat(self, path: bytes, follow: bool = True) -> Entry:
        """stat(2) or lstat(2)."""
        answer = await self.ask(Op.LOOKUP, path, how=0 if follow else 1)
        if answer.where == Where.ELSEWHERE:
            raise Outside(answer.text)
        assert answer.entry is not None
        return answer.entry

    async def names(self, path: bytes) -> list[bytes]:
        """The outputs in a directory."""
        answer = await self.ask(Op.LIST, path)
        if answer.where == Where.ELSEWHERE:
            raise Outside(answer.text)
        return sorted(name for name, _ in answer.listing)

    async def do(self, op: int, path: bytes, **fields: Any) -> None:
        """A system call without a result."""
        answer = await self.ask(op, path, **fields)
        if answer.where == Where.ELSEWHERE:
            raise Outside(answer.text)

    async def mkdir(self, path: bytes, mode: int = 0o777) -> None:
        """mkdir(2)."""
        await self.do(Op.MKDIR, path, mode=mode & ~self.umask)

    async def rename(self, old: bytes, new: bytes, flags: int = 0) -> None:
        """renameat2(2)."""
        await self.do(Op.RENAME, old, other=new, flags=flags)

    async def unlink(self, path: bytes) -> None:
        """unlink(2)."""
        await self.do(Op.UNLINK, path)

    async def rmdir(self, path: bytes) -> None:
        """rmdir(2)."""
        await self.do(Op.RMDIR, path)

    async def symlink(self, target: bytes, path: bytes) -> None:
        """symlink(2)."""
        await self.do(Op.SYMLINK, path, other=target)


class Outside(Exception):
    """A path leads out of the outputs."""


class Cluster:
    """Several ranks with the same mounts."""

    def __init__(
        self,
        size: int,
        objects: Path,
        tree: dict[bytes, bytes | str | None] | None = None,
        prefix: bytes = b"/mount",
        delay: Callable[[], int] = lambda: 0,
        others: Sequence[bytes] = (),
    ) -> None:
        objects.mkdir(exist_ok=True)
        self.world = World(size, delay)
        prefixes = [prefix, *others]
        trees = [tree or {}, *({} for _ in others)]
        self.ranks = [Rank(self.world, rank, prefixes, trees, objects) for rank in range(size)]

    def process(self, rank: int = 0) -> Process:
        """A new process."""
        return Process(self.ranks[rank])

    async def check_clean(self) -> None:
        """Nothing is left behind: no reservation without a draft, no lock, no object without a
        name."""
        await self.world.quiet()
        held = set()
        for rank in self.ranks:
            if rank.peers.rank in self.world.lost:
                continue
            server = rank.operations.home_server
            assert not server._holds
            assert not rank.operations.publisher._reserved
            for table in server.name_tables._tables.values():
                for slot in table.names.values():
                    if slot.draft is not None:
                        assert slot.draft in self.ranks[owner_of(slot.draft)].drafts.drafts
                    if slot.entry is not None and not slot.entry.is_directory:
                        held.add(slot.entry.object_id)
            held |= set(rank.drafts.drafts)
        if not self.world.lost:
            objects = Path(os.fsdecode(self.ranks[0].store._prefix))
            assert {int(path.name, 16) for path in objects.iterdir()} <= held


def renameat2(old: bytes, new: bytes, flags: int) -> None:
    """The system call, in a plain directory."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, old, AT_FDCWD, new, flags) != 0:
        raise failure(ctypes.get_errno(), old)
