"""A directory that appears whole or not at all.

It is made under a hidden name beside its final one, and renamed when it is complete and durable.
A lock file in it is held meanwhile, so that what a killed run left behind is told from what is
still being made, and removed by the next run.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from fanstore._native import check, lib
from fanstore.dataset import INDEX_NAME
from fanstore.errors import UsageError

_PREFIX = ".fanstore-prepare-"
_LOCK_NAME = "lock"
# A directory this old without a lock file was left behind between two system calls.
_UNLOCKED_AGE_S = 600
# File systems commit several waiting syncs as one.
_SYNCS_AT_ONCE = 8


def _hold_lock(directory: Path, flags: int) -> int | None:
    """Locks a directory's lock file. A descriptor; None when another holds it."""
    fd = os.open(directory / _LOCK_NAME, flags | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_nlink > 0:
            return fd
    except BlockingIOError:
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _is_leftover(directory: Path) -> bool:
    try:
        fd = _hold_lock(directory, 0)
    except FileNotFoundError:
        with suppress(OSError):
            return time.time() - directory.stat().st_mtime > _UNLOCKED_AGE_S
        return False
    except OSError:
        return False
    if fd is None:
        return False
    os.close(fd)
    return True


def remove_leftovers(parent: Path) -> None:
    """Removes what killed runs left in a directory, where we may."""
    for found in parent.glob(_PREFIX + "*"):
        if _is_leftover(found):
            shutil.rmtree(found, ignore_errors=True)


def _is_within(path: Path, directory: Path) -> bool:
    return path == directory or directory in path.parents


def check_destination(
    path: Path, source: Path | None, force: bool, marker: str = INDEX_NAME
) -> None:
    """Refuses a destination that exists (with `force`: that has no file `marker`, so is not of
    our making), or that has the source in it or lies in it. Raises UsageError."""
    where = path.resolve()
    if not where.parent.is_dir():
        raise UsageError(f"{path}: there is no directory {where.parent}")
    if source is not None:
        origin = source.resolve()
        if _is_within(where, origin):
            raise UsageError(f"{path}: lies inside the source {source}")
        if _is_within(origin, where):
            raise UsageError(f"{path}: the source {source} lies inside it")
    if not os.path.lexists(path):
        return
    if not force:
        raise UsageError(f"{path}: exists already (--force replaces it)")
    empty = path.is_dir() and not any(path.iterdir())
    if not (empty or (path / marker).is_file()) or path.is_symlink():
        raise UsageError(f"{path}: has no {marker} in it, and is not replaced")


def _sync(path: Path) -> None:
    """Makes a file or a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Destination:
    """A directory being made. Leaving the context without `commit` removes it."""

    def __init__(self, path: Path, force: bool) -> None:
        self.final = path
        self._force = force
        self._lock: int | None = None

    def __enter__(self) -> Destination:
        parent = self.final.resolve().parent
        remove_leftovers(parent)
        while self._lock is None:
            self.directory = parent / f"{_PREFIX}{os.getpid()}-{os.urandom(6).hex()}"
            self.directory.mkdir()
            with suppress(FileNotFoundError):  # taken for a leftover in this very moment
                self._lock = _hold_lock(self.directory, os.O_CREAT)
        return self

    def __exit__(self, *_: object) -> None:
        # Nothing is left under the hidden name: not what failed, nor what was replaced.
        shutil.rmtree(self.directory, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)

    def write(self, name: str, data: bytes | bytearray) -> None:
        """Writes a file."""
        with (self.directory / name).open("xb") as file:
            file.write(data)

    def commit(self) -> None:
        """Makes all files durable and gives the directory its name. Raises UsageError when that
        was taken meanwhile."""
        (self.directory / _LOCK_NAME).unlink()
        with ThreadPoolExecutor(_SYNCS_AT_ONCE) as pool:
            list(pool.map(_sync, self.directory.iterdir()))
        _sync(self.directory)
        final = self.final.resolve()
        exchange = self._force and os.path.lexists(final)
        rc = lib.fan_rename(os.fsencode(self.directory), os.fsencode(final), int(exchange))
        if rc < 0 and os.path.lexists(final) and not self._force:
            raise UsageError(f"{self.final}: exists already")
        check(rc, self.final)
        _sync(final.parent)
