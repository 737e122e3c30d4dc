"""The common part of measurements: threads that work at once while the main thread reports to the
other ranks, and repeated measurements with their median and spread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from fanstore.startup import World

WORTHLESS_SPREAD = 0.5  # a figure with a larger spread is worthless
_SHORT_S = 0.005  # a shorter time is mostly that of starting


@dataclass(frozen=True)
class Repeats:
    """The same amount of bytes, moved several times. seconds: the time of each move."""

    amount_bytes: int
    seconds: tuple[float, ...]

    @property
    def bytes_per_s(self) -> float:
        """The rate at the median time."""
        return max(1.0, self.amount_bytes / max(1e-9, median(self.seconds)))

    @property
    def spread(self) -> float:
        """The difference between the slowest and the fastest, as a part of the median. With four
        repeats or more these two are left out: something else ran for a moment, and the median
        stands."""
        ordered = sorted(self.seconds)
        if len(ordered) >= 4:
            ordered = ordered[1:-1]
        return (ordered[-1] - ordered[0]) / max(1e-9, median(ordered))

    @property
    def doubt(self) -> str | None:
        """Why the figure is worth nothing, or None."""
        if median(self.seconds) < _SHORT_S:
            return f"less than {1000 * _SHORT_S:g} ms: give more --bytes"
        if self.spread > WORTHLESS_SPREAD:
            return "repeats differ: measure again when nothing else runs, or with more --bytes"
        return None


@dataclass(frozen=True)
class Measured:
    """Figures by a count, such as that of readers, and notes about them."""

    points: dict[int, Repeats]
    notes: tuple[str, ...] = ()


_REPORT_EVERY_S = 0.1
_ABANDON_S = 5.0


class Bench:
    """The state that measurements share: the other ranks, and the progress. A thread calls `check`
    before each piece of its work, and `advance` after it."""

    def __init__(self, world: World, total_bytes: int) -> None:
        self.world = world
        self._total_bytes = total_bytes
        self._done_bytes = 0
        self._mutex = threading.Lock()
        self._stopped = False

    def check(self) -> None:
        """Raises InterruptedError if the work was given up."""
        if self._stopped:
            raise InterruptedError

    def advance(self, amount_bytes: int) -> None:
        """Adds bytes to the progress."""
        with self._mutex:
            self._done_bytes += amount_bytes

    def report(self) -> None:
        """Reports this rank's progress to the other ranks, and that it lives."""
        self.world.report(self._done_bytes, self._total_bytes)

    def together(self, works: Sequence[Callable[[], None]]) -> float:
        """Runs each of `works` in a thread, all at once. Returns the seconds until the last one was
        done. Raises the error of one of them."""
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
        """Ends the threads. A thread that hangs in a file system is left behind."""
        self._stopped = True
        begin.abort()
        deadline_s = time.monotonic() + _ABANDON_S
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline_s - time.monotonic()))
