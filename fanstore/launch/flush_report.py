"""Shows users how many outputs remain to be copied while the wrapper waits at the end."""

from __future__ import annotations

import contextlib
import time

from fanstore.launch import report
from fanstore.messages.job import Flushing
from fanstore.progress import Meter, progress_of
from fanstore.wording import show_bytes

_TELL_AFTER_S = 2.0


class FlushReport:
    """Shows the daemon's Flushing messages. quiet: prints only problems that block the outputs."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._since_s: float | None = None
        self._last: Flushing | None = None
        self._copied_before = 0
        self._blocked = ""
        self._meter: Meter | None = None
        self._stack = contextlib.ExitStack()

    def hear(self, message: Flushing) -> None:
        """Shows a message from the daemon."""
        self._last = message
        if self._since_s is None:
            self._since_s = time.monotonic()
            self._copied_before = message.copied_bytes
        if message.waiting and time.monotonic() - self._since_s > _TELL_AFTER_S:
            self._show(message)

    def waited_for(self) -> str:
        """Returns a phrase for users that says what the wrapper waits for."""
        if self._last is None:
            return "the node daemon"
        count = self._last.waiting
        if count == 0:
            return "the output directory"
        what = "output" if count == 1 else "outputs"
        return f"{count:,} {what} ({show_bytes(self._last.waiting_bytes)})"

    def close(self) -> None:
        """Removes the progress bar from the terminal."""
        self._stack.close()
        self._since_s = None

    def _show(self, message: Flushing) -> None:
        if self._meter is None:
            if not self._quiet:
                report.say(f"waiting for {self.waited_for()} to reach {message.output_dir}")
            progress = progress_of("staging out", quiet=self._quiet)
            self._meter = Meter(self._stack.enter_context(progress))
        done = message.copied_bytes - self._copied_before
        self._meter.show(done, done + message.waiting_bytes)
        if message.blocked and message.blocked != self._blocked:
            report.say(f"{message.output_dir}: {message.blocked}; trying again")
        self._blocked = message.blocked
