"""Threads that copy and check files while the main thread tells the other ranks that this rank is
alive; and a flag with which a signal handler asks long work to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any

from fanstore.errors import FanstoreError
from fanstore.exit_codes import INTERRUPTED
from fanstore.startup import World


class Stopped(FanstoreError):
    """The job was asked to end while it still started."""

    exit_code = INTERRUPTED


class Stop:
    """A flag that a signal handler sets, and that long work checks between two steps."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Asks all work to stop. Safe in a Python signal handler."""
        self._event.set()

    def clear(self) -> None:
        """Withdraws the request to stop."""
        self._event.clear()

    def is_set(self) -> bool:
        """Returns whether the work was asked to stop."""
        return self._event.is_set()

    def check(self) -> None:
        """Raises Stopped if the work was asked to stop."""
        if self._event.is_set():
            raise Stopped("stopped")


_REPORT_EVERY_S = 0.1


class Crew:
    """Worker threads of one rank, as a context manager. Only the main thread creates it, submits
    work and calls `settle`.

    The block ends when all work has ended: after a failure, waiting work is dropped and running
    work stops at its next `check`."""

    def __init__(self, world: World, stop: Stop, threads: int) -> None:
        self.world = world
        self._stop = stop
        self._pool = ThreadPoolExecutor(max(1, threads))
        self._futures: list[Future[Any]] = []
        self._mutex = threading.Lock()
        self._done_bytes = self._total_bytes = 0
        self._failed = False
        self._has_errors = False

    def expect(self, amount_bytes: int) -> None:
        """Adds to the number of bytes to do, which reports show."""
        with self._mutex:
            self._total_bytes += amount_bytes

    def advance(self, amount_bytes: int) -> None:
        """Adds to the number of bytes done, which reports show. May be called from any thread."""
        with self._mutex:
            self._done_bytes += amount_bytes

    def check(self) -> None:
        """Raises Stopped if the job is to end, or if other work has failed. May be called from any
        thread."""
        self._stop.check()
        if self._failed:
            raise Stopped("other work failed")

    def report(self) -> None:
        """Sends this rank's progress to the other ranks. Raises RankLost if one of them failed."""
        self.world.report(self._done_bytes, self._total_bytes)

    def submit(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Runs `work` in a thread. Its exception is raised by the next `settle` or `poll`."""
        future = self._pool.submit(work, *arguments)
        future.add_done_callback(self._look_at)
        self._futures.append(future)

    def _look_at(self, future: Future[Any]) -> None:
        if not future.cancelled() and future.exception() is not None:
            self._has_errors = True

    def poll(self) -> None:
        """Raises the exception of failed work, if there is one. The main thread calls it while it
        does other work."""
        if self._has_errors:
            self.settle()

    def settle(self) -> list[Any]:
        """Waits for all work submitted since the last call. Returns the results in the order of
        submission."""
        futures, self._futures = self._futures, []
        pending: set[Future[Any]] = set(futures)
        try:
            while pending:
                done, pending = wait(pending, _REPORT_EVERY_S, FIRST_EXCEPTION)
                for future in done:
                    future.result()
                self._stop.check()
                self.report()
        finally:
            self._futures = list(pending)
        return [future.result() for future in futures]

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._failed = kind is not None
        self._pool.shutdown(wait=True, cancel_futures=self._failed)
