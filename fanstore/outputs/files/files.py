"""The files of outputs: whether they are being written, their attributes, and copies of them.

A file is being written while any descriptor is open on it for writing, or a mapping of such a
descriptor exists. The kernel grants a read lease exactly when no process can write. The lease is
released at once: a program that opens the file for writing meanwhile waits only for that moment."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from io import FileIO

from fanstore._native import check, lib
from fanstore.outputs.model.entries import Attr, Changes

_PIECE_BYTES = 8 << 20
_changing = threading.Lock()


def birth_ns(path: bytes) -> int:
    """Returns when a file was created, in nanoseconds since 1970; -1 if unknown."""
    return int(lib.fan_birth_ns(path))


def is_written(path: bytes) -> bool | None:
    """Returns whether any process has the file open for writing; None if the file system has no
    leases. Raises FileNotFoundError."""
    with open_unasked(path) as file:
        try:
            # By default SIGIO announces that a lease is broken, and ends this process; SIGURG does
            # nothing.
            fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            return False
        except OSError as error:
            return True if error.errno == errno.EAGAIN else None


def open_unasked(path: bytes) -> FileIO:
    """Opens a file of this user for reading, even if its mode does not allow it, and without
    changing its access time. May be called from any thread."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags)
    except PermissionError:
        with _changing:
            fd = _open_changed(path, flags)
    with contextlib.suppress(PermissionError):  # another user's file
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_NOATIME)
    return FileIO(fd)


def _open_changed(path: bytes, flags: int) -> int:
    """Opens a file whose mode does not let its owner read it: changes the mode during the open."""
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    os.chmod(path, mode | stat.S_IRUSR)
    try:
        return os.open(path, flags)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.chmod(path, mode)


def facts_of(path: bytes) -> os.stat_result:
    """Calls lstat(2), but not while `open_unasked` has changed a mode."""
    with _changing:
        return os.lstat(path)


def change(path: bytes, changes: Changes) -> None:
    """Changes attributes, but not a mode while `open_unasked` has changed one."""
    if changes.uid is not None or changes.gid is not None:
        uid = -1 if changes.uid is None else changes.uid
        os.lchown(path, uid, -1 if changes.gid is None else changes.gid)
    if changes.mode is not None:
        with _changing:
            os.chmod(path, changes.mode)
    if changes.atime_ns is not None or changes.mtime_ns is not None:
        found = os.lstat(path)
        atime_ns = found.st_atime_ns if changes.atime_ns is None else changes.atime_ns
        mtime_ns = found.st_mtime_ns if changes.mtime_ns is None else changes.mtime_ns
        os.utime(path, ns=(atime_ns, mtime_ns), follow_symlinks=False)


def set_attr(file: bytes | int, attr: Attr) -> None:
    """Sets a file's mode and times to those of `attr`, and its owner if this user may. file: a path
    or a descriptor."""
    with contextlib.suppress(PermissionError):
        if isinstance(file, int):
            os.fchown(file, attr.uid, attr.gid)
        else:
            os.lchown(file, attr.uid, attr.gid)
    os.chmod(file, stat.S_IMODE(attr.mode))
    os.utime(file, ns=(attr.atime_ns, attr.mtime_ns))


def write(path: bytes, data: bytes, offset: int) -> None:
    """Writes `data` into a hole of a file. Leaves out zeros, which the hole already reads as. Opens
    the file itself, so that it can continue after the caller has stopped waiting."""
    if data.count(0) < len(data):
        with FileIO(path, "r+") as file:
            while data:
                written = os.pwrite(file.fileno(), data, offset)
                data, offset = data[written:], offset + written


def unlink(path: bytes) -> None:
    """Removes a file if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def copy_file(
    source: bytes,
    target: bytes,
    attr: Attr,
    advance: Callable[[int], None] = lambda _: None,
    synced: bool = False,
) -> None:
    """Copies a file with its holes, and gives the copy the attributes `attr`. Calls `advance` with
    each number of bytes copied, which may raise to end the copying. After an exception no copy is
    left."""
    with open_unasked(source) as reader, FileIO(target, "x", opener=_open_private) as writer:
        try:
            copy_bytes(reader.fileno(), writer.fileno(), advance, synced)
            set_attr(writer.fileno(), attr)
            if synced:
                os.fsync(writer.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(target)
            raise


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def copy_bytes(
    reader: int,
    writer: int,
    advance: Callable[[int], None] = lambda _: None,
    synced: bool = False,
) -> None:
    """Copies all bytes of a file into an empty one. If the file system can, both share the bytes;
    holes are kept. synced: whether the caller will sync the copy. Raises OSError."""
    size, at = os.fstat(reader).st_size, 0
    for start, end in _filled(reader):
        advance(start - at)
        at = start
        while at < end:
            count = check(lib.fan_copy_piece(reader, writer, at, min(end, at + _PIECE_BYTES)))
            if synced:
                # Now, so that the sync at the end has little to write.
                lib.fan_start_writeback(writer, at, count)
            at += count
            advance(count)
    advance(size - at)
    os.ftruncate(writer, size)


def _filled(fd: int) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of each part of a file that is not a hole."""
    found = os.fstat(fd)
    size, end = found.st_size, 0
    while end < size:
        start, end = end, size
        if found.st_blocks * 512 < size:
            try:
                start = os.lseek(fd, start, os.SEEK_DATA)
                end = min(size, os.lseek(fd, start, os.SEEK_HOLE))
            except OSError as error:
                if error.errno == errno.ENXIO:  # the rest is a hole
                    return
        yield start, end
