"""Watches processes, and tells how they have ended."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import struct
from collections.abc import Callable
from typing import NamedTuple

_PF_EXITING = 0x4
_INFO = struct.Struct("Q52xi")  # struct pidfd_info of Linux 6.15: mask, ..., exit_code
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11


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


class _Watched(NamedTuple):
    """A watched process: its start time, by which an id reused is seen, and its pidfd where one
    could be had."""

    start: int
    fd: int | None


class Processes:
    """Calls on_end(pid, killed) once for each watched process that has ended. killed: by a signal;
    False where nobody knows how."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_end: Callable[[int, bool], None], most_fds: int
    ) -> None:
        """most_fds: how many descriptors it may hold; ends of further processes are seen at
        `poll`."""
        self._loop = loop
        self._on_end = on_end
        self._fds_left = most_fds
        self._watched: dict[int, _Watched] = {}

    def watch(self, pid: int) -> None:
        """Begins to watch a process, if that is not done yet. Whatever had its number before has
        ended by then."""
        if self.killed(pid) is not None:
            self._ended(pid)
        if pid in self._watched:
            return
        start, fd = _stat_of(pid).start, None
        if self._fds_left > 0:
            with contextlib.suppress(OSError, AttributeError):  # it has gone; an old kernel
                fd = os.pidfd_open(pid)
        if fd is not None:
            self._fds_left -= 1
            self._loop.add_reader(fd, self._ended, pid)
        self._watched[pid] = _Watched(start, fd)

    def forget(self, pid: int) -> None:
        """Stops watching a process."""
        watched = self._watched.pop(pid, None)
        if watched is not None and watched.fd is not None:
            self._loop.remove_reader(watched.fd)
            os.close(watched.fd)
            self._fds_left += 1

    def killed(self, pid: int) -> bool | None:
        """Tells whether a watched process was killed, even a moment ago; None while it runs."""
        watched = self._watched.get(pid)
        if watched is None or (watched.fd is not None and not _is_ready(watched.fd)):
            return None
        found = _stat_of(pid)
        same = found.start == watched.start
        if watched.fd is None:
            runs = not found.ended and (same or not (found.start and watched.start))
            return None if runs else False
        return os.WIFSIGNALED(found.status if same else _reaped_status(watched.fd))

    def is_ending(self, pid: int) -> bool:
        """Tells whether a process that has not ended is about to: one thread of it is gone, maybe
        all."""
        found = _stat_of(pid)
        return found.ended or bool(found.flags & _PF_EXITING)

    def poll(self) -> None:
        """Looks at the processes for which there is no descriptor."""
        for pid in [pid for pid, watched in self._watched.items() if watched.fd is None]:
            if self.killed(pid) is not None:
                self._ended(pid)

    def close(self) -> None:
        """Stops watching all processes."""
        for pid in list(self._watched):
            self.forget(pid)

    def _ended(self, pid: int) -> None:
        killed = bool(self.killed(pid))
        self.forget(pid)
        self._on_end(pid, killed)


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
