"""Gives files their names in the output directory, never replacing a file of somebody else."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from typing import Any

from fanstore._native import ffi, lib
from fanstore.outputs.files.syncing import sync_all
from fanstore.outputs.model.entries import Identity

_NOTHING_TO_SYNC = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP})


def name_together(pairs: Sequence[tuple[bytes, bytes]], ended: Any) -> list[Identity]:
    """Renames files to free names in their order until one fails; returns the identities of the
    renamed files. Also stops once `ended`, an int32_t, is not 0."""
    paths = b"".join(b"%s\0%s\0" % pair for pair in pairs)
    found, error = ffi.new("struct fan_identity[]", len(pairs)), ffi.new("int32_t *")
    count = lib.fan_name_files(paths, len(pairs), found, ended, error)
    return [Identity(each.inode, each.size, each.mtime_ns) for each in found[0:count]]


def real_directory(directory: bytes) -> bytes:
    """Returns the path of a directory without links."""
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return os.readlink(b"/proc/self/fd/%d" % fd)
    finally:
        os.close(fd)


def sync_directories(directories: Sequence[bytes]) -> list[OSError]:
    """Syncs directories, so that the names in them are on disk; returns the errors. It is no error
    if a directory is gone, or its file system has nothing to sync."""
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
    """Renames a file to a name that is free. Raises FileExistsError if it is not."""
    _check(lib.fan_rename_to_free(old, new), old, new)


def exchange(one: bytes, other: bytes) -> bool:
    """Exchanges two names; returns False if the file system cannot."""
    number = lib.fan_exchange_names(one, other)
    if number != errno.EOPNOTSUPP:
        _check(number, one, other)
    return not number


def back_up(path: bytes, beside: bytes) -> bytes:
    """Renames `path` to the first free one of `beside`.~1~, .~2~ and so on; returns that name."""
    folder, name = os.path.split(beside)
    number = 1
    while True:
        suffix = b".~%d~" % number
        backup = os.path.join(folder, name[: 255 - len(suffix)] + suffix)
        with contextlib.suppress(FileExistsError):
            rename_to_free(path, backup)
            return backup
        number += 1
