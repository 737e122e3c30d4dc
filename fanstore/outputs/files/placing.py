"""Copies files to the output directory, with their holes and attributes, and gives them their names
there; never replaces a file of somebody else. Syncs files and names to the disk, many together:
syncing one by one takes longer than copying."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fanstore._native import ffi, lib
from fanstore.outputs.files.files import copy_file
from fanstore.outputs.model.entries import NAME_MAX, Attr, Identity


def copy_object(
    source: bytes, temporary: bytes, attr: Attr, advance: Callable[[int], None]
) -> None:
    """Copies a file with its holes, gives the copy the attributes `attr`, and syncs it. Calls
    `advance` with each number of bytes copied, which may raise to end the copying. After an
    exception no copy is left."""
    try:
        copy_file(source, temporary, attr, advance, synced=True)
    except FileExistsError:  # left by a daemon that was killed
        os.unlink(temporary)
        copy_file(source, temporary, attr, advance, synced=True)


def copy_together(
    files: Sequence[tuple[bytes, bytes, Attr]], by_link: bool, ended: Any
) -> list[OSError | None]:
    """Copies small files to their temporary paths, and syncs the copies together. by_link: makes a
    hard link at each temporary path instead; the files may have any size then. ended: an int32_t;
    copying stops when it is not 0. Returns None for each file that was copied, and an OSError for
    each that was not: copy_object can copy those with holes, and those that nobody may read."""
    paths = b"".join(b"%s\0%s\0" % (source, temporary) for source, temporary, _ in files)
    copies = ffi.new("struct fan_file_copy[]", len(files))
    for copy, (_, _, attr) in zip(copies, files, strict=True):
        copy.atime_ns, copy.mtime_ns, copy.mode = attr.atime_ns, attr.mtime_ns, attr.mode
        copy.uid, copy.gid = attr.uid, attr.gid
    lib.fan_copy_files(paths, len(files), copies, by_link, ended)
    made = [copy for copy in copies if copy.error == 0]
    fds = [copy.fd for copy in made]
    for copy, problem in zip(made, sync_all(fds) if fds else [], strict=True):
        copy.error = 0 if problem is None else problem.errno or errno.EIO
    lib.fan_close_all(ffi.new("int32_t[]", fds), len(fds))
    for copy, (_, temporary, _) in zip(copies, files, strict=True):
        if copy.error and copy.fd >= 0:
            os.unlink(temporary)
    return [OSError(copy.error, os.strerror(copy.error)) if copy.error else None for copy in copies]


_IN_FLIGHT = 16
_MANY = 32  # from this number of files on, the whole file system is synced


def sync_all(fds: Sequence[int]) -> list[OSError | None]:
    """Syncs files or directories of one file system. Returns the error, or None, for each."""
    if len(fds) >= _MANY:
        errors = ffi.new("int32_t[]", len(fds))
        if lib.fan_sync_whole(ffi.new("int32_t[]", fds), len(fds), errors):
            return [OSError(number, os.strerror(number)) if number else None for number in errors]
    if len(fds) == 1:
        return [_sync(fds[0])]
    for fd in fds:
        lib.fan_start_writeback(fd, 0, 0)
    with ThreadPoolExecutor(_IN_FLIGHT, "stage-out-sync") as pool:
        return list(pool.map(_sync, fds))


def _sync(fd: int) -> OSError | None:
    try:
        os.fsync(fd)
    except OSError as error:
        return error
    return None


_NOTHING_TO_SYNC = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP})


def name_together(pairs: Sequence[tuple[bytes, bytes]], ended: Any) -> list[Identity]:
    """Renames files to free names in order, until one fails or `ended`, an int32_t, is not 0.
    Returns the identities of the renamed files."""
    paths = b"".join(b"%s\0%s\0" % pair for pair in pairs)
    found, error = ffi.new("struct fan_identity[]", len(pairs)), ffi.new("int32_t *")
    count = lib.fan_name_files(paths, len(pairs), found, ended, error)
    return [Identity(each.inode, each.size, each.mtime_ns) for each in found[0:count]]


def real_directory(directory: bytes) -> bytes:
    """Returns the path of a directory, with symbolic links resolved."""
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return os.readlink(b"/proc/self/fd/%d" % fd)
    finally:
        os.close(fd)


def sync_directories(directories: Sequence[bytes]) -> list[OSError]:
    """Syncs directories, so that the names in them are on disk. Returns the errors. It is no error
    if a directory no longer exists, or if its file system has nothing to sync."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    fds: list[int] = []
    try:
        for directory in directories:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                fds.append(os.open(directory, flags))
        return [each for each in sync_all(fds) if each and each.errno not in _NOTHING_TO_SYNC]
    finally:
        for fd in fds:
            os.close(fd)


def _check(number: int, old: bytes, new: bytes) -> None:
    if number:
        raise OSError(number, os.strerror(number), old, None, new)


def rename_to_free(old: bytes, new: bytes) -> None:
    """Renames a file to a free name. Raises FileExistsError if the name is not free."""
    _check(lib.fan_rename_to_free(old, new), old, new)


def exchange(one: bytes, other: bytes) -> bool:
    """Exchanges two names. Returns False if the file system cannot do that."""
    number = lib.fan_exchange_names(one, other)
    if number != errno.EOPNOTSUPP:
        _check(number, one, other)
    return not number


def back_up(path: bytes, beside: bytes) -> bytes:
    """Renames `path` to the first free name among `beside`.~1~, .~2~ and so on. Returns that
    name."""
    folder, name = os.path.split(beside)
    number = 1
    while True:
        suffix = b".~%d~" % number
        backup = os.path.join(folder, name[: NAME_MAX - len(suffix)] + suffix)
        with contextlib.suppress(FileExistsError):
            rename_to_free(path, backup)
            return backup
        number += 1
