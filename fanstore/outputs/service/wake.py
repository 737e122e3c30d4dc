"""The pipe by which a program wakes the outputs thread when it has changed names itself
(csrc/format/names_format.h). While changes keep coming they are followed a few times in each
hundredth of a second, and nobody has to wake it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

PIPE = "changes"
_ROUND_S = 0.005
_READ_BYTES = 1 << 12


class Wake:
    """Follows what programs change, in the loop's thread. Close when done."""

    def __init__(
        self, directory: str, catch_up: Callable[[], bool], sleep: Callable[[], bool]
    ) -> None:
        """directory: the job's. catch_up: follows all changes, tells whether there were any. sleep:
        from now on programs write to the pipe; False: there are changes. Raises OSError."""
        path = os.path.join(directory, PIPE)
        os.mkfifo(path, 0o600)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._catch_up = catch_up
        self._sleep = sleep
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._fd, self._woken)
        self._round()

    def close(self) -> None:
        """Follows nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _woken(self) -> None:
        os.read(self._fd, _READ_BYTES)
        if self._timer is None:
            self._round()

    def _round(self) -> None:
        self._timer = None
        if self._catch_up() or not self._sleep():
            self._timer = self._loop.call_later(_ROUND_S, self._round)
