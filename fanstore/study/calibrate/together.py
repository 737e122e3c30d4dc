"""Threads that work at once and are timed, while the main thread tells the other ranks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from fanstore.startup import World

_REPORT_EVERY_S = 0.1
_ABANDON_S = 5.0


class Bench:
    """What measurements share: the other ranks, and how far they are. A thread asks `check` before
    each piece of its work, and adds it with `advance`."""

    def __init__(self, world: World, total_bytes: int) -> None:
        self.world = world
        self._total_bytes = total_bytes
        self._done_bytes = 0
        self._mutex = threading.Lock()
        self._stopped = False

    def check(self) -> None:
        """Raises InterruptedError where the work was given up."""
        if self._stopped:
            raise InterruptedError

    def advance(self, amount_bytes: int) -> None:
        """Adds bytes to what is done."""
        with self._mutex:
            self._done_bytes += amount_bytes

    def report(self) -> None:
        """Tells the other ranks how far this one is, and that it lives."""
        self.world.report(self._done_bytes, self._total_bytes)

    def together(self, works: Sequence[Callable[[], None]]) -> float:
        """Has a thread do each of `works`, all at once; returns the seconds until the last one was
        done. Raises what one of them raised."""
        begin = threading.Barrier(len(works) + 1)
        ends_s: list[float] = []
        errors: list[BaseException] = []

        def run(work: Callable[[], None]) -> None:
            try:
                begin.wait()
                work()
                ends_s.append(time.perf_counter())
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
        try:
            for thread in threads:
                thread.start()
            begin.wait()
            start_s = time.perf_counter()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_REPORT_EVERY_S)
                    self.report()
        except BaseException:
            self._give_up(begin, threads)
            raise
        if errors:
            raise errors[0]
        return max(ends_s, default=start_s) - start_s

    def _give_up(self, begin: threading.Barrier, threads: Sequence[threading.Thread]) -> None:
        """Ends the threads; one that hangs in a file system is left behind."""
        self._stopped = True
        begin.abort()
        deadline_s = time.monotonic() + _ABANDON_S
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline_s - time.monotonic()))
