"""Watches writers close their files (inotify(7)), and processes end."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import enum
import fcntl
import os
import select
import struct
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

_IN_CLOSE_WRITE = 0x8
_IN_Q_OVERFLOW = 0x4000
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_PF_EXITING = 0x4
_POLL_S = 0.2
_IDLE_MOST = 32
_INFO = struct.Struct("Q52xi")  # struct pidfd_info of Linux 6.15: mask, ..., exit_code
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11


class ClosedFiles:
    """Calls on_closed(names) with the names of files in watched directories whose last writer, or
    one of them, closed; without names: of any number of them."""

    def __init__(self, on_closed: Callable[[set[bytes]], None]) -> None:
        """Raises OSError where the user or the system has no inotify left."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._on_closed = on_closed
        self._fd = self._check(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._wanted: Counter[bytes] = Counter()
        self._watches: dict[bytes, int] = {}

    def watch(self, directory: bytes) -> None:
        """Watches a directory until `leave` was called as often as this. Raises OSError, also where
        the user has no watches left."""
        self._wanted[directory] += 1
        if directory not in self._watches:
            watch = self._libc.inotify_add_watch(self._fd, directory, _IN_CLOSE_WRITE)
            self._watches[directory] = self._check(watch)

    def leave(self, directory: bytes) -> None:
        """Watches a directory for one caller less."""
        self._wanted[directory] -= 1
        if self._wanted[directory] == 0:
            del self._wanted[directory]
            self._libc.inotify_rm_watch(self._fd, self._watches.pop(directory, -1))

    def _check(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def fileno(self) -> int:
        """Returns the descriptor that the loop is to wait for."""
        return self._fd

    def read(self) -> None:
        """Calls on_closed with what has been closed since; never waits."""
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        names: set[bytes] = set()
        at = 0
        while at < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            if mask & _IN_Q_OVERFLOW:
                self._on_closed(set())
            elif length:
                names.add(data[at - length : at].rstrip(b"\0"))
        if names:
            self._on_closed(names)

    def close(self) -> None:
        """Stops watching all."""
        os.close(self._fd)


class End(enum.Enum):
    """How a process has ended, as far as that can be told."""

    KILLED = "by a signal"
    OTHER = "in order, or nobody knows how"


class _Stat(NamedTuple):
    """What /proc says of a process. state: "" where there is none; start: 0 where unknown; status:
    a zombie's wait status, 0 where it cannot be read."""

    state: str
    flags: int
    start: int
    status: int = 0

    @property
    def ended(self) -> bool:
        return self.state in ("", "Z", "X")


class _Watched:
    """A watched process: its start time, by which an id reused is seen, and its pidfd where one
    could be had."""

    def __init__(self, pid: int) -> None:
        self.start = _stat_of(pid).start
        self.fd: int | None = None
        with contextlib.suppress(OSError, AttributeError):  # no descriptors left; an old kernel
            self.fd = os.pidfd_open(pid)


class Processes:
    """Calls on_end(pid, how) once for each watched process that has ended."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_end: Callable[[int, End], None], most_fds: int
    ) -> None:
        """most_fds: how many descriptors it may hold; further processes are polled."""
        self._loop = loop
        self._on_end = on_end
        self._fds_left = most_fds
        self._watched: dict[int, _Watched] = {}
        self._polled: set[int] = set()
        self._idle: dict[int, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, pid: int) -> None:
        """Begins to watch a process, if that is not done yet. Whatever had its number before has
        ended by then."""
        self._idle.pop(pid, None)
        if self.end_of(pid) is not None:
            self._ended(pid)
        if pid in self._watched:
            return
        watched = self._watched[pid] = _Watched(pid)
        if watched.fd is not None and self._fds_left == 0:
            os.close(watched.fd)
            watched.fd = None
        if watched.fd is None:
            self._polled.add(pid)
            self._poll_later()
        else:
            self._fds_left -= 1
            self._loop.add_reader(watched.fd, self._ended, pid)

    def release(self, pid: int) -> None:
        """Notes that a process need not be watched. Most programs write several files, so some are
        watched on for the next one."""
        if pid in self._polled:
            self.forget(pid)
        elif pid in self._watched:
            self._idle[pid] = None
        while len(self._idle) > _IDLE_MOST or (self._idle and self._fds_left == 0):
            self.forget(next(iter(self._idle)))

    def forget(self, pid: int) -> None:
        """Stops watching a process."""
        watched = self._watched.pop(pid, None)
        self._polled.discard(pid)
        self._idle.pop(pid, None)
        if watched is not None and watched.fd is not None:
            self._loop.remove_reader(watched.fd)
            os.close(watched.fd)
            self._fds_left += 1

    def end_of(self, pid: int) -> End | None:
        """Returns how a watched process has ended, even a moment ago; None while it runs."""
        watched = self._watched.get(pid)
        if watched is None:
            return None
        if watched.fd is None:
            return End.OTHER if self._has_gone(pid) else None
        if not _is_ready(watched.fd):
            return None
        found = _stat_of(pid)
        status = found.status if found.start == watched.start else _reaped_status(watched.fd)
        return End.KILLED if os.WIFSIGNALED(status) else End.OTHER

    def is_ending(self, pid: int) -> bool:
        """Tells whether a process that has not ended is about to: one thread of it is gone, maybe
        all."""
        found = _stat_of(pid)
        return found.ended or bool(found.flags & _PF_EXITING)

    def close(self) -> None:
        """Stops watching all processes."""
        for pid in list(self._watched):
            self.forget(pid)
        if self._timer is not None:
            self._timer.cancel()

    def _ended(self, pid: int) -> None:
        how = self.end_of(pid) or End.OTHER
        self.forget(pid)
        self._on_end(pid, how)

    def _poll_later(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(_POLL_S, self._poll)

    def _poll(self) -> None:
        self._timer = None
        for pid in list(self._polled):
            if self._has_gone(pid):
                self._ended(pid)
        if self._polled:
            self._poll_later()

    def _has_gone(self, pid: int) -> bool:
        """Tells whether a process that is watched without a pidfd has ended."""
        found, start = _stat_of(pid), self._watched[pid].start
        return found.ended or bool(found.start and start and found.start != start)


def has_ended(pid: int) -> bool:
    """Tells whether a process, or its first thread, has ended."""
    return _stat_of(pid).ended


def _stat_of(pid: int) -> _Stat:
    """Reads what /proc says of a process now. Where that cannot be read, it is taken to run."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stream:
            fields = stream.read(4096).rpartition(b") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return _Stat("", 0, 0)
    except OSError:  # no descriptors left
        return _Stat("R", 0, 0)
    return _Stat(fields[0].decode(), int(fields[6]), int(fields[19]), int(fields[49]))


def _is_ready(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def _reaped_status(pidfd: int) -> int:
    """Returns the wait status of a process that is gone; 0 where the kernel does not tell."""
    info = bytearray(_INFO.pack(_PIDFD_INFO_EXIT, 0))
    with contextlib.suppress(OSError):
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, info)
        mask, status = _INFO.unpack(info)
        return int(status) if mask & _PIDFD_INFO_EXIT else 0
    return 0
