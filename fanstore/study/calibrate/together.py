"""Measuring: threads that work at once while the main thread tells the other ranks, and figures
that were measured several times with their median and spread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from fanstore.startup import World

WORTHLESS_SPREAD = 0.5  # from here on a figure says little
_SHORT_S = 0.005  # what took less is made of the time that starting takes


@dataclass(frozen=True)
class Repeats:
    """The same amount of bytes, moved several times. seconds: what each time took."""

    amount_bytes: int
    seconds: tuple[float, ...]

    @property
    def bytes_per_s(self) -> float:
        """The rate of the median."""
        return max(1.0, self.amount_bytes / max(1e-9, median(self.seconds)))

    @property
    def spread(self) -> float:
        """How far the slowest and the fastest are apart, as a part of the median. Of four repeats
        and more these two are left out: something else ran for a moment, and the median stands."""
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
    """Figures by a count, such as that of readers, and what has to be said of them."""

    points: dict[int, Repeats]
    notes: tuple[str, ...] = ()


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
