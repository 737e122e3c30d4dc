"""Repeats requests that fail for a while, with growing pauses, up to a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from fanstore.errors import FanstoreError

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0

T = TypeVar("T")
Pause = Callable[[float], None]  # waits for so many seconds, or raises if the work is to end


class ObjectChanged(Exception):
    """The object is not as it was listed, or gone."""


class BucketRefused(FanstoreError):
    """The bucket refused a request, or did not answer it in time. The message is a sentence for
    the user. status: that of the last answer; 0 if none came. passing: the last try failed in a
    way that may pass."""

    def __init__(self, sentence: str, status: int = 0, passing: bool = False) -> None:
        super().__init__(sentence)
        self.status = status
        self.passing = passing


class PassingFailure(Exception):
    """A request failed in a way that may pass. after_s: how long the server asks to wait.
    status: as of BucketRefused."""

    def __init__(self, why: str, after_s: float = 0.0, status: int = 0) -> None:
        super().__init__(why)
        self.after_s = after_s
        self.status = status


def may_pass(status: int) -> bool:
    """Returns whether a request that was answered with this status may succeed later."""
    return status in (408, 429) or (status >= 500 and status != 501)  # 501: not implemented


def patiently(request: Callable[[], T], where: str, deadline_s: float, pause: Pause) -> T:
    """Returns the result of a request, which is repeated as long as it raises PassingFailure, and
    begun for the last time before the deadline. Raises BucketRefused after the deadline."""
    end_s, pause_s, status = time.monotonic() + deadline_s, _FIRST_PAUSE_S, 0
    while True:
        try:
            return request()
        except PassingFailure as error:
            status = error.status or status
            # A random part of the pause, so that not all requests come again at once.
            wait_s = max(error.after_s, random.uniform(pause_s / 2, pause_s))
            if time.monotonic() + wait_s >= end_s:
                why = f"no answer within {deadline_s:g} s; the last try failed: {error}"
                raise BucketRefused(f"{where}: {why}", status, passing=True) from error
        pause(wait_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
