"""One copy of an object's file in the output directory, with its holes and attributes, synced."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from typing import Any

from fanstore._native import ffi, lib
from fanstore.outputs.model.entries import Attr
from fanstore.outputs.objects.files import open_unasked
from fanstore.outputs.stageout.journal import Identity
from fanstore.outputs.stageout.placing import apply_attr
from fanstore.outputs.stageout.syncing import sync_all

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
    reader = open_unasked(source)
    try:
        writer = _create(temporary)
        try:
            _copy_data(reader, writer, advance)
            apply_attr(writer, attr)
            os.fsync(writer)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        finally:
            os.close(writer)  # it was synced before, so an error here would say nothing new
    finally:
        os.close(reader)


def copy_together(files: Sequence[tuple[bytes, bytes, Attr]], ended: Any) -> list[OSError | None]:
    """Copies small files, each to its temporary path, and syncs them together. ended: an int32_t
    that is not 0 once nothing is waited for. Returns for each None, or why it is not copied:
    among other things if it has holes, or lets nobody read it, which copy_object can do."""
    paths = b"".join(b"%s\0%s\0" % (source, temporary) for source, temporary, _ in files)
    copies = ffi.new("struct fan_copy[]", len(files))
    for copy, (_, _, attr) in zip(copies, files, strict=True):
        copy.atime_ns, copy.mtime_ns, copy.mode = attr.atime_ns, attr.mtime_ns, attr.mode
        copy.uid, copy.gid = attr.uid, attr.gid
    lib.fan_copy_files(paths, len(files), copies, ended)
    made = [copy for copy in copies if copy.error == 0]
    fds = [copy.fd for copy in made]
    for copy, problem in zip(made, sync_all(fds) if fds else [], strict=True):
        copy.error = 0 if problem is None else problem.errno or errno.EIO
    lib.fan_close_all(ffi.new("int32_t[]", fds), len(fds))
    for copy, (_, temporary, _) in zip(copies, files, strict=True):
        if copy.error and copy.fd >= 0:
            os.unlink(temporary)
    return [OSError(copy.error, os.strerror(copy.error)) if copy.error else None for copy in copies]


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
            lib.fan_start_writeback(writer, at, count)  # so that little is left for the sync
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
