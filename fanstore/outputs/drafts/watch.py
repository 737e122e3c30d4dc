"""Watches processes, and tells how they have ended."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

_PF_EXITING = 0x4
_INFO = struct.Struct("Q52xi")  # struct pidfd_info of Linux 6.15: mask, ..., exit_code
_PIDFD_INFO_EXIT = 1 << 3
_PIDFD_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11


class _Stat(NamedTuple):
    """What /proc says of a process. ending: one thread of it is gone, maybe all; start: 0 where
    unknown; status: a zombie's wait status, 0 where it cannot be read."""

    ended: bool
    ending: bool
    start: int = 0
    status: int = 0


@dataclass(eq=False)
class Process:
    """A process. start: its start time, by which a number reused is seen, 0 where unknown; fd: its
    pidfd, where one could be had; killed: by a signal, as far as is known; holds: the drafts for
    the sake of which it is watched."""

    pid: int
    start: int = 0
    fd: int | None = None
    dead: bool = False
    killed: bool = False
    holds: set[int] = field(default_factory=set)

    def look(self) -> bool:
        """Tells whether it has ended, even a moment ago, and notes how."""
        if self.dead or (self.fd is not None and not _is_ready(self.fd)):
            return self.dead
        found = _stat_of(self.pid)
        same = found.start == self.start
        if self.fd is None and not found.ended and (same or not (found.start and self.start)):
            return False
        self.dead = True
        self.killed = os.WIFSIGNALED(found.status if same else _reaped_status(self.fd))
        return True

    def is_ending(self) -> bool:
        """Tells whether it is about to end, as far as is known not ended yet."""
        return not self.dead and _stat_of(self.pid).ending


class Processes:
    """Calls on_end with each watched process that has ended, where it has a pidfd; that others
    have is seen by a look."""

    def __init__(self, on_end: Callable[[Process], None], most_fds: int) -> None:
        """To be called within the running loop. most_fds: how many descriptors it may hold."""
        self._loop = asyncio.get_running_loop()
        self._on_end = on_end
        self._fds_left = most_fds
        self._watched: dict[int, Process] = {}

    def held_by(self, pid: int) -> Collection[int]:
        """Returns what a process holds; nothing where it is not watched."""
        process = self._watched.get(pid)
        return () if process is None else process.holds

    def watch(self, pid: int) -> Process:
        """Returns a process that is watched from now on, if it was not yet. One that had its number
        before has ended by then."""
        process = self._watched.get(pid)
        if process is None or process.look():
            process = self._watched[pid] = Process(pid, _stat_of(pid).start)
            if self._fds_left > 0:
                with contextlib.suppress(OSError, AttributeError):  # it has gone; an old kernel
                    process.fd = os.pidfd_open(pid)
            if process.fd is not None:
                self._fds_left -= 1
                self._loop.add_reader(process.fd, self._ended, process)
        return process

    def forget(self, process: Process) -> None:
        """Stops watching a process."""
        if self._watched.get(process.pid) is process:
            del self._watched[process.pid]
        if process.fd is not None:
            self._loop.remove_reader(process.fd)
            os.close(process.fd)
            process.fd = None
            self._fds_left += 1

    def _ended(self, process: Process) -> None:
        process.look()
        self.forget(process)
        self._on_end(process)


def _stat_of(pid: int) -> _Stat:
    """Reads what /proc says of a process now. Where that cannot be read, it is taken to run."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stream:
            fields = stream.read(4096).rpartition(b") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return _Stat(ended=True, ending=True)
    except OSError:  # no descriptors left
        return _Stat(ended=False, ending=False)
    ended = fields[0] in (b"Z", b"X")
    ending = ended or bool(int(fields[6]) & _PF_EXITING)
    return _Stat(ended, ending, int(fields[19]), int(fields[49]))


def _is_ready(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))


def _reaped_status(pidfd: int | None) -> int:
    """Returns the wait status of a process that is gone; 0 where nobody tells."""
    if pidfd is None:
        return 0
    info = bytearray(_INFO.pack(_PIDFD_INFO_EXIT, 0))
    with contextlib.suppress(OSError):
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, info)
        mask, status = _INFO.unpack(info)
        return int(status) if mask & _PIDFD_INFO_EXIT else 0
    return 0
