"""Syncs files and names to the disk, many together: syncing one by one takes longer than
copying."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from fanstore._native import ffi, lib

_IN_FLIGHT = 16
_MANY = 32  # from this number of files on, the whole file system is synced


def sync_all(fds: Sequence[int]) -> list[OSError | None]:
    """Syncs files or directories of one file system; returns for each the error, or None."""
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
