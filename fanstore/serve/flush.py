"""Waits for a job's outputs at its end: until they are placed, then until they are accounted
for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from fanstore.outputs.service import OutputService

FLUSH_TELL_S = 1.0
_GIVE_UP_WAIT_S = 2.0


class Flush:
    """Waits for `work` of the outputs. `tell` is given a message about it now and then."""

    def __init__(
        self,
        outputs: OutputService,
        work: Future[Any],
        tell: Callable[[dict[str, Any]], None],
        wake: Callable[[], None],
    ) -> None:
        self._outputs = outputs
        self._work = work
        self._tell = tell
        self._told_s = 0.0
        self._given_up_s: float | None = None
        work.add_done_callback(lambda _: wake())

    def goes_on(self) -> bool:
        """Tells whether to wait on, and tells the parent how far it is. Once it was given up that
        is not for long, whatever hangs."""
        now_s = time.monotonic()
        if self._work.done():
            return False
        if self._given_up_s is not None and now_s > self._given_up_s + _GIVE_UP_WAIT_S:
            return False
        if now_s >= self._told_s + FLUSH_TELL_S:
            self._told_s = now_s
            self._tell({"type": "flushing", **self._outputs.figures()})
        return True

    def give_up(self) -> None:
        """Has the work end soon; what is not placed by then is not."""
        if self._given_up_s is None:
            self._given_up_s = time.monotonic()
            self._outputs.give_up()

    def problem(self) -> str:
        """Returns why the work failed, or ""."""
        if not self._work.done():
            return "not waited for"
        error = self._work.exception()
        if error is None:
            return ""
        print(f"fanstore: outputs: {type(error).__name__}: {error}", file=sys.stderr)
        return str(error)
