"""Repeats requests that fail for a while, with growing pauses, up to a deadline; holds all to the
rates that the user allows; and sends several at a time."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from math import inf
from typing import Any, TypeVar

from fanstore.errors import DatasetDamaged, FanstoreError

LONG_S = 300.0  # a deadline for those who can wait
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0
_LOOK_EVERY_S = 0.2

T = TypeVar("T")
Check = Callable[[], None]  # called now and then; may raise to end the work


class ObjectChanged(DatasetDamaged):
    """The object is not as it was listed, or gone."""


class BucketRefused(FanstoreError):
    """The bucket refused a request, or did not answer it in time. The message is a sentence for
    the user. status: that of the last answer; 0 if none came. passing: the last try failed in a
    way that may pass. after_s: how long the server asks to wait."""

    def __init__(
        self, sentence: str, status: int = 0, passing: bool = False, after_s: float = 0.0
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.passing = passing
        self.after_s = after_s


class Pace:
    """A token bucket through which all requests of this process go. Any thread may call `wait`."""

    def __init__(self) -> None:
        self.limit(inf, inf)
        # Another thread may hold the lock while one forks.
        os.register_at_fork(after_in_child=lambda: self.limit(*self._rates))

    def limit(self, requests_per_s: float, bytes_per_s: float) -> None:
        self._rates, self._free_s = (requests_per_s, bytes_per_s), 0.0
        self._lock = threading.Lock()  # guards `_free_s`

    def wait(self, count: int, check: Check) -> float:
        """Waits until a request for `count` bytes may begin. Returns for how many seconds."""
        now_s, (requests_per_s, bytes_per_s) = time.monotonic(), self._rates
        with self._lock:
            start_s = max(now_s, self._free_s)
            self._free_s = start_s + max(1 / requests_per_s, count / bytes_per_s)
        _sleep_until(start_s, check)
        return start_s - now_s


PACE = Pace()


def _sleep_until(end_s: float, check: Check) -> None:
    while (left_s := end_s - time.monotonic()) > 0:
        check()
        time.sleep(min(left_s, _LOOK_EVERY_S))


def patiently(
    request: Callable[[], T], where: str, count: int, deadline_s: float, check: Check
) -> T:
    """Returns the result of a request for `count` bytes, which is repeated as long as it may pass,
    and begun for the last time before the deadline, without the waits for PACE. check: may be
    called from any thread. Raises BucketRefused after the deadline."""
    end_s, pause_s, status = time.monotonic() + deadline_s, _FIRST_PAUSE_S, 0
    while True:
        end_s += PACE.wait(count, check)
        try:
            return request()
        except BucketRefused as error:
            if not error.passing:
                raise
            status = error.status or status
            # A random part of the pause, so that not all requests come again at once.
            again_s = time.monotonic() + max(error.after_s, random.uniform(pause_s / 2, pause_s))
            if again_s >= end_s:
                why = f"no answer within {deadline_s:g} s; the last try failed: {error}"
                raise BucketRefused(f"{where}: {why}", status, passing=True) from error
        _sleep_until(again_s, check)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class SideBySide:
    """Threads that each wait for one request, as a context manager. When the block ends, requests
    that were not sent are dropped, and those under way are not waited for or repeated."""

    def __init__(self, threads: int, check: Check) -> None:
        """check: called in this thread alone."""
        self._pool = ThreadPoolExecutor(threads, "fanstore-request")
        self._check = check
        self._is_over = False

    def submit(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        return self._pool.submit(work, *arguments)

    def result(self, future: Future[T]) -> T:
        """Waits for the result of a request."""
        while not wait([future], _LOOK_EVERY_S).done:
            self._check()
        return future.result()

    def check(self) -> None:
        """The check for the requests."""
        if self._is_over:  # the process waits for these threads when it ends
            raise BucketRefused("nobody waits for the request any more")

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._pool.shutdown(wait=False, cancel_futures=True)
