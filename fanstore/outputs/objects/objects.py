"""The real files of outputs: objects, each on the disk of the rank whose programs wrote it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from fanstore.outputs.model.entries import (
    FOLDER_OBJECTS,
    OBJECT_RANK_SHIFT,
    OBJECTS,
    Attr,
    Changes,
    Entry,
    file_of,
    folder_of,
    owner_of,
)
from fanstore.outputs.objects import files
from fanstore.outputs.objects.fetch import Copies
from fanstore.peers.interface import Peers

COPIES = "copies"  # the folder for those of other ranks' objects, in a job's directory
_SLOW_UNLINK_BYTES = 64 << 20
_CLOCK_STEP_NS = 1_000_000_000  # two changes further apart have different times, on any disk

T = TypeVar("T")


class ObjectStore:
    """The objects of this rank and this node's copies of other ranks', each kind in a folder of the
    job's directory, which it makes; and of which file an object that is being written will be the
    next version: it keeps that one's st_ino. `on_discard` is called with each object that goes."""

    on_discard: Callable[[int], None] = staticmethod(lambda _: None)

    def __init__(self, directory: str, peers: Peers, executor: Executor) -> None:
        folder = os.path.join(directory, OBJECTS)
        os.mkdir(folder, 0o700)
        self._prefix = os.fsencode(folder) + b"/"
        self._peers = peers
        self._copies = Copies(os.path.join(directory, COPIES), peers, executor)
        self.copy_changes = self._copies.changes_of
        self._executor = executor
        self._readers: dict[int, set[int]] = {}  # the ranks that may have a copy
        self._first: dict[int, int] = {}  # the object that was the first version
        self._originals: dict[int, Attr] = {}  # of a copy of the version before, as it was made
        self._gone: dict[int, int] = {}
        self._last = peers.rank << OBJECT_RANK_SHIFT
        peers.serve("change_object", lambda _, *args: self.change(*args))
        peers.serve("object.read", self._read)

    def new_id(self) -> int:
        """Returns an object id of this rank that was never used."""
        self._last += 1
        return self._last

    def path(self, object_id: int) -> bytes:
        """Returns the absolute path of an object of this rank."""
        return self._prefix + file_of(object_id)

    def _make_folder(self, object_id: int) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._prefix + b"%x" % folder_of(object_id), 0o700)

    def attr(self, object_id: int) -> Attr:
        """Returns the attributes that an object of this rank has now. Raises OSError."""
        return Attr.of(files.facts_of(self.path(object_id)))

    def create(self, object_id: int, mode: int) -> Attr:
        """Makes an empty file with exactly that mode."""
        self._make_folder(object_id)
        path = self.path(object_id)
        os.mknod(path, 0o600)
        os.chmod(path, stat.S_IMODE(mode))
        return Attr.of(os.lstat(path))

    async def copy(self, entry: Entry, object_id: int) -> None:
        """Makes a new object of this rank with the bytes and attributes of an entry. Raises OSError
        and leaves nothing behind."""
        self._make_folder(object_id)
        source, target = await self.local_path(entry), self.path(object_id)
        await self._apart(files.copy_file, source, target, entry.attr)
        self._originals[object_id] = Attr.of(os.lstat(target))

    def is_unchanged(self, object_id: int, attr: Attr) -> bool:
        """Tells whether an object with these attributes by now is a copy of the version before to
        which nothing was done, as far as its times can tell."""
        made = self._originals.get(object_id)
        if made is None or made.ctime_ns - made.mtime_ns < _CLOCK_STEP_NS:
            return False
        return (made.size, made.mtime_ns, made.ctime_ns) == (
            attr.size, attr.mtime_ns, attr.ctime_ns
        )  # fmt: skip

    def follow(self, object_id: int, replaced: Entry) -> None:
        """Notes that an object is going to be the next version of a file."""
        self._first[object_id] = replaced.first or replaced.object_id

    def forget(self, object_id: int) -> None:
        """Forgets what an object is a version of: it is published, or never will be."""
        self._first.pop(object_id, None)
        self._originals.pop(object_id, None)

    def entry(self, object_id: int, attr: Attr | None = None) -> Entry:
        """Returns an object as an entry, with the attributes that it has by now, unless given.
        Raises OSError."""
        found = self.attr(object_id) if attr is None else attr
        return Entry(object_id, found, first=self._first.get(object_id, 0))

    async def local_path(self, entry: Entry) -> bytes:
        """Returns the path of a file on this node with the bytes of an entry, fetched if need be.
        Raises OSError."""
        if entry.owner == self._peers.rank:
            return self.path(entry.object_id)
        return await self._copies.local_path(entry)

    async def change(self, object_id: int, changes: Changes) -> Attr:
        """Changes the attributes of the real file, on whatever rank it is, and returns the new
        ones."""
        owner = owner_of(object_id)
        if owner != self._peers.rank:
            changed: Attr = await self._peers.call(owner, "change_object", object_id, changes)
            return changed
        files.change(self.path(object_id), changes)
        return self.attr(object_id)

    async def truncate(self, object_id: int, size: int) -> None:
        """Cuts or extends an object of this rank to `size` bytes."""
        await self._apart(os.truncate, self.path(object_id), size)

    def discard(self, object_id: int) -> None:
        """Removes the file of an object of this rank that no name stands for any more, and the
        copies on other ranks. A file that cannot be removed stays until the job ends."""
        for rank in self._readers.pop(object_id, ()):
            self._peers.tell(rank, "copy.discard", object_id)
        self.forget(object_id)
        self.on_discard(object_id)
        with contextlib.suppress(OSError):
            path = self.path(object_id)
            if os.lstat(path).st_size >= _SLOW_UNLINK_BYTES:
                self._executor.submit(files.unlink, path)
            else:
                os.unlink(path)
        self._leave(folder_of(object_id))

    def _leave(self, folder: int) -> None:
        """Notes that an object of a folder is gone: with its last one the folder goes."""
        self._gone[folder] = self._gone.get(folder, 0) + 1
        if self._gone[folder] == FOLDER_OBJECTS:
            del self._gone[folder]
            with contextlib.suppress(OSError):
                os.rmdir(self._prefix + b"%x" % folder)

    async def _read(self, rank: int, object_id: int, offset: int, size: int) -> bytes:
        """Answers another rank that copies an object of this one."""
        self._readers.setdefault(object_id, set()).add(rank)
        try:
            return await self._apart(files.read, self.path(object_id), offset, size)
        except FileNotFoundError:
            self._readers.pop(object_id, None)
            raise

    async def _apart(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)
