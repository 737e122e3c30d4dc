"""Runs work on a file system that may hang in a separate process, which can be abandoned.

A process that waits for such a file system cannot be killed until the file system answers, and a
process that waits for that process hangs as well. So nothing may wait for it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

LEAVE_AFTER_S = 3.0  # time for the process to end after it was told to
_POLL_S = 0.05
_REAP_S = 0.5
_TOLD_MOST_BYTES = 1 << 16  # the longest message, which names one path

Tell = Callable[[Any], None]
Work = Callable[[Tell, Callable[[], bool]], None]


def told_apart(work: Work, given_up: Callable[[], bool]) -> Iterator[Any]:
    """Runs `work(tell, is_given_up)` in a separate process, and yields the values that it passes to
    `tell`, until it ends. Once `given_up` returns true, the process has LEAVE_AFTER_S to end; if it
    is true at the start, nothing is run."""
    if given_up():
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        _child(work, theirs)
    theirs.close()
    until_s = math.inf
    try:
        while time.monotonic() < until_s:
            if until_s == math.inf and given_up():
                until_s = time.monotonic() + LEAVE_AFTER_S
                ours.shutdown(socket.SHUT_WR)
            if select.select([ours], [], [], _POLL_S)[0]:
                told = ours.recv(_TOLD_MOST_BYTES)
                if not told:
                    return
                yield json.loads(told)
    finally:
        ours.close()
        _end(pid)


def _child(work: Work, link: socket.socket) -> None:
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # only the parent ends this process
        _let_go_of_all_but(link.fileno())
        work(
            lambda told: link.sendall(json.dumps(told).encode()),
            lambda: bool(select.select([link], [], [], 0)[0]),
        )
    finally:
        os._exit(0)


def _let_go_of_all_but(fd: int) -> None:
    """Closes all inherited descriptors except `fd`: otherwise the parent's locks and pipes would
    stay open as long as this process hangs."""
    for each in [int(name) for name in os.listdir("/proc/self/fd")]:
        if each != fd:
            with contextlib.suppress(OSError):
                os.close(each)
    for _ in range(3):
        os.open(os.devnull, os.O_RDWR)


def _end(pid: int) -> None:
    """Kills the process. Waits for its end only for the time that a process needs which does not
    hang."""
    os.kill(pid, signal.SIGKILL)
    until_s = time.monotonic() + _REAP_S
    while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < until_s:
        time.sleep(_POLL_S / 10)
