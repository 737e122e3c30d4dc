"""Advisory locks on files that may be removed while somebody waits for them.

A lock is a flock on a file of its own. It dies with its holder, so a killed job never blocks the
next one; whoever can take it exclusively knows that nobody uses what it stands for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator

_POLL_S = 0.01


def try_lock(fd: int, *, exclusive: bool) -> bool:
    """Takes or converts the lock on an open file; tells whether that went without waiting."""
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
    """Returns a descriptor that holds the lock on `path`, or None where another holds it. The file
    is made (0600) unless `create` is false. Raises OSError where it cannot be opened."""
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
    """Returns what `take` does, but waits for it; `check` is called all the while and may raise to
    give up."""
    while (fd := take(path, exclusive=exclusive)) is None:
        check()
        time.sleep(_POLL_S)
    return fd


@contextlib.contextmanager
def free(path: str) -> Iterator[bool]:
    """Tells whether nobody holds the lock on an existing `path`; if so it is held in the block."""
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
