"""Sets up the daemon as a process: it ends with its parent, and has a name and a log. Also watches
other processes."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import signal
import sys
import time
from typing import Any

from fanstore.process_stat import ProcessStat, stat_of

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


def die_with_parent(parent: int, signal_number: int) -> None:
    """Asks the kernel to send this process a signal when its parent ends; sends it at once if the
    parent has ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal_number)


def set_name(name: str) -> None:
    """Sets the process's name in ps and top, at most 15 bytes."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


class Process:
    """A process that is not our child, identified by its id and start time, so that a reused id is
    noticed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._start = self._start_now()
        self._leads_group = self.runs() and self._group() == pid

    def _group(self) -> int:
        try:
            return os.getpgid(self.pid)
        except ProcessLookupError:  # ended since it was found
            return 0

    def _stat(self) -> ProcessStat | None:
        try:
            return stat_of(self.pid)
        except OSError:
            return None

    def _start_now(self) -> int | None:
        """Returns the start time of the process that has this id now; None if there is none."""
        found = self._stat()
        return None if found is None else found.start_ticks

    def runs(self) -> bool:
        """Returns whether the process still runs; a zombie does not."""
        found = self._stat()
        return found is not None and found.runs and found.start_ticks == self._start

    def wait(self, timeout_s: float) -> bool:
        """Waits at most `timeout_s` for the process to end; returns whether it has."""
        deadline_s = time.monotonic() + timeout_s
        while self.runs():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(0.02)
        return True

    def kill(self) -> None:
        """Kills the process if it still runs. If it leads a process group, kills the whole
        group."""
        if self._start_now() not in (None, self._start):
            return  # another process has the id now, so the group is gone
        with contextlib.suppress(ProcessLookupError):
            if self._leads_group:
                os.killpg(self.pid, signal.SIGKILL)
            elif self.runs():
                os.kill(self.pid, signal.SIGKILL)


class _Dropping(io.FileIO):
    """A log file that drops data when the disk is full, so that the daemon does not end because of
    its log."""

    def write(self, data: Any) -> int:
        with contextlib.suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes


def log_to(path: str) -> None:
    """Redirects standard error to the file `path`."""
    sys.stderr.flush()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        fd = os.open(path, flags, 0o600)
    except OSError:
        fd = os.open(os.devnull, os.O_WRONLY)
    os.dup2(fd, 2)
    os.close(fd)
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(_Dropping(2, "w", closefd=False)),
        errors="backslashreplace",
        line_buffering=True,
    )
