"""One copy of an object's file in the output directory, with its holes and attributes, synced."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable

from fanstore.outputs.model.entries import Attr
from fanstore.outputs.objects.leases import open_unasked
from fanstore.outputs.stageout.journal import Identity
from fanstore.outputs.stageout.placing import apply_attr
from fanstore.outputs.stageout.syncing import start_writing

_PIECE_BYTES = 8 << 20
_CANNOT = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.ETXTBSY}
)


def copy_object(
    source: bytes, temporary: bytes, attr: Attr, advance: Callable[[int], None]
) -> None:
    """Copies a file with its holes, gives it `attr`, and syncs it. `advance` is called with the
    count of bytes as they come, and may raise to give up. Where anything is raised, nothing is left
    behind."""
    writer = copy_unsynced(source, temporary, attr, advance)
    try:
        os.fsync(writer)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    finally:
        os.close(writer)  # it was synced before, so an error here would say nothing new


def copy_unsynced(
    source: bytes, temporary: bytes, attr: Attr, advance: Callable[[int], None]
) -> int:
    """Does what copy_object does but sync; returns a descriptor of the copy for that."""
    reader = open_unasked(source)
    try:
        writer = _create(temporary)
        try:
            _copy_data(reader, writer, advance)
            apply_attr(writer, attr)
        except BaseException:
            os.close(writer)
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        return writer
    finally:
        os.close(reader)


def _create(path: bytes) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileExistsError:  # a daemon that was killed has left it
        os.unlink(path)
        return os.open(path, flags, 0o600)


def link_again(earlier: bytes, identity: Identity, attr: Attr, temporary: bytes) -> bool:
    """Makes a second name for a copy that is in the output directory already; tells whether that
    was possible."""
    with contextlib.suppress(OSError):
        if Identity.of(os.lstat(earlier)) != identity or attr.mtime_ns != identity.mtime_ns:
            return False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        os.link(earlier, temporary, follow_symlinks=False)
        if Identity.of(os.lstat(temporary)) == identity:
            apply_attr(temporary, attr)
            return True
        os.unlink(temporary)
    return False


def _copy_data(reader: int, writer: int, advance: Callable[[int], None]) -> None:
    found = os.fstat(reader)
    size, at = found.st_size, 0
    if found.st_blocks * 512 >= size:  # there are no holes
        _copy_range(reader, writer, 0, size, advance)
        return
    while at < size:
        try:
            start = os.lseek(reader, at, os.SEEK_DATA)
            end = min(size, os.lseek(reader, start, os.SEEK_HOLE))
        except OSError as error:
            if error.errno == errno.ENXIO:  # holes to the end
                break
            start, end = at, size
        advance(start - at)
        _copy_range(reader, writer, start, end, advance)
        at = end
    if at < size:
        advance(size - at)
        os.ftruncate(writer, size)


def _copy_range(
    reader: int, writer: int, start: int, end: int, advance: Callable[[int], None]
) -> None:
    ways = [_in_kernel, _by_sendfile, _by_hand]
    at = start
    while at < end:
        try:
            count = ways[0](reader, writer, at, min(_PIECE_BYTES, end - at))
        except OSError as error:
            if error.errno not in _CANNOT or len(ways) == 1:
                raise
            count = 0
        if count == 0:
            if len(ways) == 1:
                raise OSError(errno.EIO, "the object is shorter than it was")
            ways.pop(0)
        if count == _PIECE_BYTES:
            start_writing(writer, at, count)  # so that little is left for the sync
        at += count
        advance(count)


def _in_kernel(reader: int, writer: int, at: int, count: int) -> int:
    return os.copy_file_range(reader, writer, count, at, at)


def _by_sendfile(reader: int, writer: int, at: int, count: int) -> int:
    os.lseek(writer, at, os.SEEK_SET)
    return os.sendfile(writer, reader, at, count)


def _by_hand(reader: int, writer: int, at: int, count: int) -> int:
    data = os.pread(reader, min(count, 1 << 20), at)
    written = 0
    while written < len(data):
        written += os.pwrite(writer, data[written:], at + written)
    return written
