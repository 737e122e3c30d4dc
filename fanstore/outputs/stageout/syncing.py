"""Brings files and names to the disk, many together: one by one that takes longer than copying."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

_IN_FLIGHT = 16
_MANY = 32  # files for which a whole file system is synced
_WAIT_BEFORE, _WRITE = 1, 2
_CANNOT = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.ESPIPE})
# Where syncfs(2) ends with all on the disk: ext4, XFS, Btrfs, F2FS, tmpfs (statfs(2)). What it does
# to a file server's disks is each network file system's own affair.
_SYNCED_WHOLE = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994})
_libc = ctypes.CDLL(None, use_errno=True)


def start_writing(fd: int, start: int = 0, size: int = 0) -> None:
    """Has the kernel begin to write so many bytes of a file, 0: all (sync_file_range(2)). Where it
    cannot, they are written later."""
    _sync_range(fd, start, size, _WRITE)


def sync_all(fds: Sequence[int]) -> list[OSError | None]:
    """Syncs files or directories of one file system; returns for each why that failed, or None."""
    if len(fds) >= _MANY and _is_synced_whole(fds[0]) and _libc.syncfs(fds[0]) == 0:
        return [_written(fd) for fd in fds]
    for fd in fds:
        start_writing(fd)
    if len(fds) == 1:
        return [_sync(fds[0])]
    with ThreadPoolExecutor(_IN_FLIGHT, "stage-out-sync") as pool:
        return list(pool.map(_sync, fds))


def _sync(fd: int) -> OSError | None:
    try:
        os.fsync(fd)
    except OSError as error:
        return error
    return None


def _written(fd: int) -> OSError | None:
    """Returns why some of a file's bytes could not be written, or None: syncfs(2) does not say of
    which file that is so, and on kernels before 5.8 not even that it is."""
    number = _sync_range(fd, 0, 0, _WAIT_BEFORE)
    if number in _CANNOT:
        return _sync(fd)
    return OSError(number, os.strerror(number)) if number else None


def _sync_range(fd: int, start: int, size: int, what: int) -> int:
    """Returns 0 or an errno."""
    offset, count = ctypes.c_int64(start), ctypes.c_int64(size)
    failed = _libc.sync_file_range(fd, offset, count, what) != 0
    return ctypes.get_errno() if failed else 0


def _is_synced_whole(fd: int) -> bool:
    buffer = ctypes.create_string_buffer(256)
    if _libc.fstatfs(fd, buffer) != 0:
        return False
    return struct.unpack_from("@l", buffer.raw)[0] & 0xFFFFFFFF in _SYNCED_WHOLE
