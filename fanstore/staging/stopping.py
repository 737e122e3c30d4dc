"""Carries the wish to stop from a signal handler to long work, which looks for it between steps."""

from __future__ import annotations

import threading

from fanstore.errors import FanstoreError
from fanstore.exit_codes import INTERRUPTED


class Stopped(FanstoreError):
    """The job was told to end before it had begun."""

    exit_code = INTERRUPTED


class Stop:
    """A flag set by a signal handler and looked at between two steps of long work."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Asks whoever works to stop. Safe in a Python signal handler."""
        self._event.set()

    def clear(self) -> None:
        """Forgets that somebody asked to stop."""
        self._event.clear()

    def is_set(self) -> bool:
        """Tells whether somebody asked to stop."""
        return self._event.is_set()

    def check(self) -> None:
        """Raises Stopped if somebody asked to stop."""
        if self._event.is_set():
            raise Stopped("stopped")
