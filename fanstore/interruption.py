"""Signals that end the process, as one exception: whatever number of them comes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fanstore.errors import FanstoreError
from fanstore.exit_codes import SIGNALLED

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """A signal that ends the work. It is raised once; further signals change nothing."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Interrupted(FanstoreError):
    """Work that a signal has ended; the message says what is left of it."""

    def __init__(self, ended: Ended, message: str) -> None:
        super().__init__(f"ended by {signal.Signals(ended.number).name}: {message}")
        self.exit_code = SIGNALLED + ended.number


class Ending:
    """Handles such signals: it raises Ended for the first one."""

    def __init__(self) -> None:
        self._is_over = False

    def ignore(self) -> None:
        """Has further signals change nothing."""
        self._is_over = True

    def __call__(self, number: int, _: object) -> None:
        if not self._is_over:
            self._is_over = True
            raise Ended(number)


@contextmanager
def ending_on_signals() -> Iterator[Ending]:
    """Has SIGINT, SIGTERM and SIGHUP raise Ended, but those that are ignored here (nohup)."""
    ending = Ending()
    if threading.current_thread() is not threading.main_thread():
        yield ending
        return
    usual = (signal.SIG_DFL, signal.default_int_handler)
    taken = {n: signal.getsignal(n) for n in _ENDING if signal.getsignal(n) in usual}
    try:
        for number in taken:
            signal.signal(number, ending)
        yield ending
    finally:
        for number, before in taken.items():
            signal.signal(number, before)
