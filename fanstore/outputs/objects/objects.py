"""The real files of outputs: objects, each on the disk of the rank whose programs wrote it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import Executor

from fanstore.outputs.model.entries import (
    FOLDER_OBJECTS,
    OBJECT_RANK_SHIFT,
    Attr,
    Changes,
    Entry,
    file_of,
    folder_of,
    owner_of,
)
from fanstore.outputs.objects.fetch import Copies, set_attr, unlink
from fanstore.outputs.objects.files import change_mode, facts_of, open_unasked
from fanstore.peers.interface import Peers

_FICLONE = 0x40049409
_COPY_BYTES = 1 << 26
_SLOW_UNLINK_BYTES = 64 << 20
_NO_CLONE = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM)
_NO_COPY_RANGE = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


class ObjectStore:
    """The objects of this rank, in `directory`, which it makes. on_discard: called with each that
    goes."""

    def __init__(
        self, directory: str, peers: Peers, copies: Copies, executor: Executor,
        on_discard: Callable[[int], None],
    ) -> None:  # fmt: skip
        os.mkdir(directory, 0o700)
        self.directory = directory
        self._prefix = os.fsencode(directory) + b"/"
        self._peers = peers
        self._copies = copies
        self._executor = executor
        self._on_discard = on_discard
        self._originals: dict[int, Attr] = {}
        self._gone: dict[int, int] = {}
        self._last = peers.rank << OBJECT_RANK_SHIFT
        peers.serve("discard_object", lambda _, object_id: self.discard(object_id))
        peers.serve("change_object", lambda _, *args: self.change(*args))

    def new_id(self) -> int:
        """Returns an object id of this rank that was never used."""
        self._last += 1
        return self._last

    def path(self, object_id: int) -> bytes:
        """Returns the absolute path of an object of this rank."""
        return self._prefix + file_of(object_id)

    def make_folder(self, object_id: int) -> bytes:
        """Makes the folder for an object's file, if it is not there yet; returns its path."""
        folder = self._prefix + b"%x" % folder_of(object_id)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        return folder

    def attr(self, object_id: int) -> Attr:
        """Returns the attributes that an object of this rank has now. Raises OSError."""
        return Attr.of(facts_of(self.path(object_id)))

    def create(self, object_id: int, mode: int) -> Attr:
        """Makes an empty file with exactly that mode."""
        self.make_folder(object_id)
        path = self.path(object_id)
        os.mknod(path, 0o600)
        os.chmod(path, stat.S_IMODE(mode))
        return Attr.of(os.lstat(path))

    async def copy(self, entry: Entry, object_id: int) -> None:
        """Makes a new object of this rank with the bytes and attributes of an entry. Raises OSError
        and leaves nothing behind."""
        self.make_folder(object_id)
        source, target = await self.local_path(entry), self.path(object_id)
        await self._apart(_copy_file, source, target, entry.attr)
        self._originals[object_id] = Attr.of(os.lstat(target))

    def original_of(self, object_id: int) -> Attr | None:
        """Returns, once, the attributes that a copy had when it was made; None for an object that
        is no copy."""
        return self._originals.pop(object_id, None)

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
        path = self.path(object_id)
        _change(path, changes)
        return Attr.of(facts_of(path))

    def copy_changes(self, object_id: int) -> Changes | None:
        """Returns how a program changed the attributes of this node's copy of another rank's
        object. Raises OSError."""
        return self._copies.changes_of(object_id)

    async def truncate(self, object_id: int, size: int) -> None:
        """Cuts or extends an object of this rank to `size` bytes."""
        await self._apart(_truncate, self.path(object_id), size)

    def discard(self, object_id: int) -> None:
        """Removes the file of an object that no name stands for any more, and the copies on other
        ranks."""
        owner = owner_of(object_id)
        if owner != self._peers.rank:
            self._peers.tell(owner, "discard_object", object_id)
            return
        self._copies.discarded(object_id)
        self._on_discard(object_id)
        with contextlib.suppress(FileNotFoundError):
            path = self.path(object_id)
            if os.lstat(path).st_size >= _SLOW_UNLINK_BYTES:
                self._executor.submit(unlink, path)
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

    async def _apart(self, function: object, *args: object) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._executor, function, *args)  # type: ignore[arg-type]


def _truncate(path: bytes, size: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.ftruncate(fd, size)
    finally:
        os.close(fd)


def _change(path: bytes, changes: Changes) -> None:
    if changes.uid is not None or changes.gid is not None:
        uid = -1 if changes.uid is None else changes.uid
        os.lchown(path, uid, -1 if changes.gid is None else changes.gid)
    if changes.mode is not None:
        change_mode(path, changes.mode)
    if changes.atime_ns is not None or changes.mtime_ns is not None:
        found = os.lstat(path)
        atime_ns = found.st_atime_ns if changes.atime_ns is None else changes.atime_ns
        mtime_ns = found.st_mtime_ns if changes.mtime_ns is None else changes.mtime_ns
        os.utime(path, ns=(atime_ns, mtime_ns))


def _copy_file(source: bytes, target: bytes, attr: Attr) -> None:
    """Copies a file and gives it these attributes, or leaves nothing."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    read_fd = open_unasked(source)
    try:
        write_fd = os.open(target, flags, 0o600)
        try:
            copy_bytes(read_fd, write_fd)
            set_attr(target, attr)
        except BaseException:
            os.unlink(target)
            raise
        finally:
            os.close(write_fd)
    finally:
        os.close(read_fd)


def copy_bytes(read_fd: int, write_fd: int) -> None:
    """Copies all bytes of a file into an empty one: shared between both where the file system can,
    holes left as such. Raises OSError. Both offsets are left anywhere."""
    try:
        fcntl.ioctl(write_fd, _FICLONE, read_fd)
        return
    except OSError as error:
        if error.errno not in _NO_CLONE:
            raise
    for start, end in _filled(read_fd):
        os.lseek(read_fd, start, os.SEEK_SET)
        os.lseek(write_fd, start, os.SEEK_SET)
        _copy_range(read_fd, write_fd, end - start)
    os.ftruncate(write_fd, os.fstat(read_fd).st_size)


def _filled(fd: int) -> Iterator[tuple[int, int]]:
    """Yields the start and end of each part of a file that is no hole."""
    end = 0
    while True:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return
        end = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, end


def _copy_range(read_fd: int, write_fd: int, size: int) -> None:
    """Copies `size` bytes at the offsets of both files, fewer where the source ends."""
    in_kernel = True
    while size > 0:
        try:
            if in_kernel:
                done = os.copy_file_range(read_fd, write_fd, min(size, _COPY_BYTES))
            else:
                done = os.sendfile(write_fd, read_fd, None, min(size, _COPY_BYTES))
        except OSError as error:
            if not in_kernel or error.errno not in _NO_COPY_RANGE:
                raise
            in_kernel = False
            continue
        if done == 0:
            return
        size -= done
