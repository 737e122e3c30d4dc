"""The common part of measurements: threads that work at the same time while the main thread reports
to the other ranks; and repeated measurements with their median and spread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from fanstore.startup import World

WORTHLESS_SPREAD = 0.5  # a figure with a larger spread is marked as worthless
_SHORT_S = 0.005  # in a shorter time, starting takes most of it


@dataclass(frozen=True)
class Repeats:
    """Repeated moves of the same number of bytes. seconds: the time of each."""

    amount_bytes: int
    seconds: tuple[float, ...]

    @property
    def bytes_per_s(self) -> float:
        """The rate at the median time."""
        return max(1.0, self.amount_bytes / max(1e-9, median(self.seconds)))

    @property
    def spread(self) -> float:
        """The difference between the slowest and the fastest time, as a part of the median. With
        four repeats or more these two are left out, because other work may have disturbed them,
        which does not affect the median."""
        ordered = sorted(self.seconds)
        if len(ordered) >= 4:
            ordered = ordered[1:-1]
        return (ordered[-1] - ordered[0]) / max(1e-9, median(ordered))

    @property
    def doubt(self) -> str | None:
        """The reason why the figure is worthless, or None."""
        if median(self.seconds) < _SHORT_S:
            return f"less than {1000 * _SHORT_S:g} ms: give more --bytes"
        if self.spread > WORTHLESS_SPREAD:
            return "repeats differ: measure again when nothing else runs, or with more --bytes"
        return None


@dataclass(frozen=True)
class Measured:
    """Figures by a number, such as the number of readers, and notes about them."""

    points: dict[int, Repeats]
    notes: tuple[str, ...] = ()


_REPORT_EVERY_S = 0.1
_ABANDON_S = 5.0


class Bench:
    """Shared by all measurements: the other ranks, and the progress. A thread calls `check` before
    each piece of its work, and `advance` after it."""

    def __init__(self, world: World, total_bytes: int) -> None:
        self.world = world
        self._total_bytes = total_bytes
        self._done_bytes = 0
        self._mutex = threading.Lock()
        self._stopped = False

    def check(self) -> None:
        """Raises InterruptedError if the measurement was given up."""
        if self._stopped:
            raise InterruptedError

    def advance(self, amount_bytes: int) -> None:
        """Adds bytes to those that the progress bar shows."""
        with self._mutex:
            self._done_bytes += amount_bytes

    def report(self) -> None:
        """Tells the other ranks this rank's progress, and that it is alive."""
        self.world.report(self._done_bytes, self._total_bytes)

    def together(self, works: Sequence[Callable[[], None]]) -> float:
        """Runs each of `works` in a thread, all at once. Returns the seconds until all were done.
        Raises the error of one of them."""
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
        """Makes the threads end. Abandons a thread that hangs in a file system."""
        self._stopped = True
        begin.abort()
        deadline_s = time.monotonic() + _ABANDON_S
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline_s - time.monotonic()))
