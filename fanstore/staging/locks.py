"""Advisory locks on files that may be removed while a process waits for them.

A lock is a flock on a lock file. The kernel releases it when its holder ends, so a killed job never
blocks the next one. A process with the exclusive lock knows that no other process uses the locked
thing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator

_POLL_S = 0.01


def try_lock(fd: int, *, exclusive: bool) -> bool:
    """Takes the lock on an open file, or converts it, without waiting. Returns whether it
    succeeded."""
    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _still_there(fd: int, path: str) -> bool:
    try:
        named = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(fd), named)


def take(path: str, *, exclusive: bool, create: bool = True) -> int | None:
    """Returns a descriptor that holds the lock on `path`, or None if another process holds it. If
    `create`, makes a missing file (0600). Raises OSError if it cannot be opened."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if create else 0)
    while True:
        fd = os.open(path, flags, 0o600)
        if not try_lock(fd, exclusive=exclusive):
            os.close(fd)
            return None
        if _still_there(fd, path):
            return fd
        os.close(fd)


def wait(path: str, *, exclusive: bool, check: Callable[[], None]) -> int:
    """Waits for the lock on `path` and returns a descriptor that holds it. While it waits, calls
    `check`, which may raise."""
    while (fd := take(path, exclusive=exclusive)) is None:
        check()
        time.sleep(_POLL_S)
    return fd


@contextlib.contextmanager
def free(path: str) -> Iterator[bool]:
    """Yields whether no other process holds the lock on `path`; if so, holds it within the block. A
    missing file counts as free."""
    try:
        fd = take(path, exclusive=True, create=False)
    except FileNotFoundError:
        yield True
        return
    try:
        yield fd is not None
    finally:
        if fd is not None:
            os.close(fd)
