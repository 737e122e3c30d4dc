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
    """What /proc says of a process. state: "" where there is none; start: 0 where unknown; status:
    a zombie's wait status, 0 where it cannot be read."""

    state: str
    flags: int
    start: int
    status: int = 0

    @property
    def ended(self) -> bool:
        return self.state in ("", "Z", "X")


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
        """Tells whether it has not ended and is about to: one thread of it is gone, maybe all."""
        found = _stat_of(self.pid)
        return not self.dead and (found.ended or bool(found.flags & _PF_EXITING))


class Processes:
    """Calls on_end once with each watched process that has ended."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_end: Callable[[Process], None], most_fds: int
    ) -> None:
        """most_fds: how many descriptors it may hold; ends of further processes are seen at
        `poll`."""
        self._loop = loop
        self._on_end = on_end
        self._fds_left = most_fds
        self._watched: dict[int, Process] = {}

    def held_by(self, pid: int) -> Collection[int]:
        """Returns what a process holds; nothing where it is not watched."""
        process = self._watched.get(pid)
        return () if process is None else process.holds

    def watch(self, pid: int) -> Process:
        """Returns a process that is watched from now on, if it was not yet. Whatever had its number
        before has ended by then."""
        known = self._watched.get(pid)
        if known is not None and known.look():
            self._ended(known)
        if pid in self._watched:
            return self._watched[pid]
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

    def poll(self) -> None:
        """Looks at the processes for which there is no descriptor."""
        for process in [each for each in self._watched.values() if each.fd is None]:
            if process.look():
                self._ended(process)

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
        return _Stat("", 0, 0)
    except OSError:  # no descriptors left
        return _Stat("R", 0, 0)
    return _Stat(fields[0].decode(), int(fields[6]), int(fields[19]), int(fields[49]))


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
