"""The namespace of outputs on several ranks in one loop, and processes that use it."""

from __future__ import annotations

import asyncio
import os
import random
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from namespace_fakes import FakeInputs, FakeShared, World

from fanstore.outputs.model.entries import Entry, failure, joined
from fanstore.outputs.model.wire import Answer, Op, Request, Where
from fanstore.outputs.ranks.copies import Copies
from fanstore.outputs.ranks.operations import Operations
from fanstore.outputs.ranks.trees import Trees
from fanstore.outputs.tree.walk import COUNTERPART_MODE, WHOSE

AT_FDCWD = -100


class Rank:
    """One rank, whole: its trees and copies are in `directory`."""

    def __init__(
        self, world: World, rank: int, prefixes: Sequence[bytes], trees: Any, directory: Path
    ) -> None:
        self.world = world
        self.peers = world.ranks[rank]
        self.inputs = [FakeInputs(*pair) for pair in zip(prefixes, trees, strict=True)]
        self.shared = FakeShared()
        self.directory = directory
        roots = [directory / str(mount) for mount in range(len(prefixes))]
        for root in roots:
            root.mkdir(parents=True)
            root.chmod(COUNTERPART_MODE)
        (directory / "scratch").mkdir()
        self.trees = Trees(
            rank, [os.fsencode(root) for root in roots], os.fsencode(directory / "scratch"),
            self.shared,  # type: ignore[arg-type]
            lambda mount, path: self.inputs[mount].kind(path) != "missing",
        )  # fmt: skip
        self.executor = ThreadPoolExecutor(1)
        copies = Copies(str(directory / "copies"), self.peers, self.executor)
        placed = [os.fsencode(directory.parent / "output" / str(n)) for n in range(len(prefixes))]
        self.operations = Operations(
            self.peers, self.inputs, self.trees, copies,
            self.shared, placed,  # type: ignore[arg-type]
        )  # fmt: skip


@dataclass
class Open:
    """A file that a process has open. inode: 0 unless it may write."""

    fd: int
    inode: int


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
            request = Request(op, path=path, **fields)
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
            answer = await self.ask(Op.OPEN, path, flags=flags, mode=mode & ~self.umask)
            try:
                return self._really(answer, flags, mode)
            except FileNotFoundError:
                continue
        raise AssertionError("replaced again and again")

    def _really(self, answer: Answer, flags: int, mode: int) -> Open:
        if answer.where == Where.DIRECTORY:
            return Open(-1, 0)
        if answer.where == Where.COPY:
            return Open(os.open(answer.text, flags & ~(os.O_CREAT | os.O_NOFOLLOW)), 0)
        if answer.where not in (Where.TREE, Where.MADE):
            raise Outside(answer.text)
        fd = answer.fd
        if answer.where == Where.TREE:
            fd = os.open(answer.text, flags & ~(os.O_CREAT | os.O_EXCL) | os.O_NONBLOCK)
        inode = os.fstat(fd).st_ino if flags & os.O_ACCMODE != os.O_RDONLY else 0
        self.rank.shared.written[inode] += 1
        return Open(fd, inode)

    async def close(self, file: Open) -> None:
        """close(2)."""
        if file.fd >= 0:
            os.close(file.fd)
        if file.inode:
            self.rank.shared.written[file.inode] -= 1

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
        return sorted(name for name, _, _ in answer.listing)

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
        directory: Path,
        tree: dict[bytes, bytes | str | None] | None = None,
        prefix: bytes = b"/mount",
        delay: Callable[[], int] = lambda: 0,
        others: Sequence[bytes] = (),
    ) -> None:
        self.world = World(size, delay)
        prefixes = [prefix, *others]
        trees = [tree or {}, *({} for _ in others)]
        self.ranks = [
            Rank(self.world, rank, prefixes, trees, directory / str(rank)) for rank in range(size)
        ]

    def process(self, rank: int = 0) -> Process:
        """A new process."""
        return Process(self.ranks[rank])

    async def check_clean(self) -> None:
        """Nothing is left behind: nothing unfinished, no pointer to a rank that has nothing there,
        and nothing that no pointer leads to."""
        await self.world.quiet()
        for rank in self.ranks:
            if rank.peers.rank not in self.world.lost:
                assert list((rank.directory / "scratch").iterdir()) == []
        if self.world.lost:
            return
        for mount in range(len(self.ranks[0].inputs)):
            had = set[bytes]()
            for rank in self.ranks:
                had |= _what_it_has(rank, mount)
            seen = await self._all_below(mount, b"")
            assert seen == had, (seen - had, had - seen)

    async def _all_below(self, mount: int, path: bytes) -> set[bytes]:
        """All outputs that a program finds."""
        answer = await self.process().ask(Op.LIST, path, view=mount)
        found = set[bytes]()
        for name, type_of, _ in answer.listing:
            below = joined(path, name)
            found.add(below)
            if type_of == stat.S_IFDIR >> 12:
                found |= await self._all_below(mount, below)
        for below in self.ranks[0].inputs[mount].tree:
            kind = self.ranks[0].inputs[mount].kind(below)
            if below and os.path.dirname(below) == path and kind == "directory":
                found |= await self._all_below(mount, below)
        return found


def _what_it_has(rank: Rank, mount: int) -> set[bytes]:
    """All outputs of a rank."""
    found, waiting = set[bytes](), [b""]
    while waiting:
        path = waiting.pop()
        for name in os.listdir(rank.trees.path(mount, path)):
            below = joined(path, name)
            if name == WHOSE:
                continue
            if os.path.isdir(rank.trees.path(mount, below)):
                waiting.append(below)
            if rank.trees.look(mount, below).entry and rank.inputs[mount].kind(below) == "missing":
                found.add(below)
    return found


def renameat2(old: bytes, new: bytes, flags: int) -> None:
    """The system call, in a plain directory."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, old, AT_FDCWD, new, flags) != 0:
        raise failure(ctypes.get_errno(), old)
