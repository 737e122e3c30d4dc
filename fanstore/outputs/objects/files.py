"""Whether a file is open for writing anywhere: a descriptor, or a mapping that outlived its own.

The kernel grants a read lease exactly when nobody can write. It is let go of at once: a program
that opens the file for writing in between waits for that moment, no longer.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
import threading

_changing = threading.Lock()


def is_written(path: bytes) -> bool | None:
    """Tells whether anybody has the file open for writing; None where the file system knows no
    leases. Raises FileNotFoundError."""
    fd = open_unasked(path)
    try:
        # The signal of a lease in somebody's way ends a process by default; this one does nothing.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    finally:
        os.close(fd)


def open_unasked(path: bytes) -> int:
    """Opens a file of this user for reading, even one that its mode lets nobody read, without
    moving its access time. May be called from any thread."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags)
    except PermissionError:
        with _changing:
            fd = _open_changed(path, flags)
    with contextlib.suppress(PermissionError):  # not ours
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_NOATIME)
    return fd


def change_mode(path: bytes, mode: int) -> None:
    """Does chmod(2), though not in the moment in which `open_unasked` has another mode set."""
    with _changing:
        os.chmod(path, mode)


def facts_of(path: bytes) -> os.stat_result:
    """Does lstat(2), though not in the moment in which `open_unasked` has another mode set."""
    with _changing:
        return os.lstat(path)


def _open_changed(path: bytes, flags: int) -> int:
    """Gives the owner the right to read for the moment of the open."""
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    os.chmod(path, mode | stat.S_IRUSR)
    try:
        return os.open(path, flags)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.chmod(path, mode)
