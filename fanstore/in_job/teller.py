"""Sends messages to the node daemon, and never waits for the daemon. See start.py."""

from __future__ import annotations

import array
import functools
import json
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from fanstore.in_job.told import EpochTold

_SOCKET = "order"
_TAIL_MAX = 1 << 16  # bytes of indices that a message itself may hold
# Numbers of fcntl(2): F_ADD_SEALS, and F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_WRITE. Python's fcntl
# has these names since 3.9.
_ADD_SEALS, _SEALS = 1033, 2 | 4 | 8


class Teller:
    """Sends messages to the daemon of the job in `directory`. calls: functions of
    csrc/preload/loading/python_hook.c that send and seal; without them, those of Python do so,
    which raise audit events."""

    def __init__(self, directory: str, calls: Any = None) -> None:
        self.directory = directory
        self._calls = calls
        self._failed = False

    def began(self) -> None:
        """Sends an empty message, at which the daemon prepares for loaders. Raises OSError."""
        self._send(b"{}", [])

    def tell(self, message: EpochTold, parts: dict[str, Iterable[bytes]]) -> None:
        """Sends a message, and each of `parts` as a memory file. Short "indices" go into the
        message itself, behind a NUL. Raises OSError."""
        fds: list[int] = []
        tail = b"".join(parts.get("indices", ()))
        if 0 < len(tail) <= _TAIL_MAX:
            parts = {name: pieces for name, pieces in parts.items() if name != "indices"}
            tail = b"\0" + tail
        else:
            tail = b""
        try:
            for pieces in parts.values():
                fds.append(self._memory_file(pieces))
            told: EpochTold = {**message, "parts": list(parts)}
            self._send(json.dumps(told).encode() + tail, fds)
        finally:
            for fd in fds:
                os.close(fd)

    def again(self, loader: int) -> None:
        """Tells that a loader whose order is unknown begins an epoch. Raises OSError."""
        whole: EpochTold = {
            "loader": loader, "dataset": -1, "workers": 0, "prefetch_factor": 1, "in_order": True,
            "sampler": {"kind": "again"},
        }  # fmt: skip
        self.tell(whole, {})

    def say(self, why: str) -> None:
        """Sends a reason why orders are not known, for the job's report. Raises OSError."""
        self._send(json.dumps({"failed": why[:500]}).encode(), [])

    def failed(self, error: Exception) -> None:
        """Sends the reason why this process stops watching, once. Raises `error` again if a signal
        handler of the job raised it."""
        if of_a_handler(error):
            raise error
        if not self._failed:
            self._failed = True
            try:
                where = error.__traceback__
                while where is not None and where.tb_next is not None:
                    where = where.tb_next
                line = 0 if where is None else where.tb_lineno
                why = f"{type(error).__name__}: {error} (line {line})"
                self.say(why)
            except Exception as another:
                if of_a_handler(another):
                    raise

    def _send(self, text: bytes, fds: list[int]) -> None:
        if self._calls is not None:
            _check(self._calls[0](text, array.array("i", fds).tobytes()))
            return
        import socket

        directory = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
                link.setblocking(False)
                link.connect(f"/proc/self/fd/{directory}/{_SOCKET}")
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
                link.sendmsg([text], [rights] if fds else [])
        finally:
            os.close(directory)

    def _memory_file(self, pieces: Iterable[bytes]) -> int:
        fd = os.memfd_create("fanstore-order", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[os.write(fd, view) :]
            if self._calls is not None:
                _check(self._calls[1](fd))
            else:
                import fcntl

                fcntl.fcntl(fd, _ADD_SEALS, _SEALS)
        except BaseException:
            os.close(fd)
            raise
        return fd


def _check(number: int) -> None:
    """Raises OSError for an error number that is not 0."""
    if number:
        raise OSError(number, os.strerror(number))


def of_a_handler(error: BaseException) -> bool:
    """Returns whether a signal handler of the job raised an exception. Such an exception belongs to
    the job: its handler may run between any two lines of Python, also in this code."""
    codes = [_code_of(signal.getsignal(number)) for number in signal.valid_signals()]
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code not in codes:
        step = step.tb_next
    return step is not None


def _code_of(handler: Any) -> Any:
    """Returns the code object of a signal handler; None if it has none."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    # for an object with a method __call__
    call = type(handler).__call__ if callable(handler) else None
    return getattr(handler, "__code__", None) or getattr(call, "__code__", None)
