"""Shows the progress of work on many bytes: on a terminal as a bar, otherwise as a line every few
seconds."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

_LINE_EVERY_S = 5.0


class Progress(Protocol):
    """Shows the progress of some work. Several threads may call its methods."""

    def expect(self, total_bytes: int) -> None: ...  # the total may change while the work is done

    def advance(self, amount_bytes: int) -> None: ...


class _Silent:
    def expect(self, total_bytes: int) -> None:
        pass

    def advance(self, amount_bytes: int) -> None:
        pass


class _Lines:
    """Prints a line on stderr every few seconds; short work prints none."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._mutex = threading.Lock()
        self._total = self._done = 0
        self._start_s = self._last_s = time.monotonic()

    def expect(self, total_bytes: int) -> None:
        self._total = total_bytes

    def advance(self, amount_bytes: int) -> None:
        with self._mutex:
            self._done += amount_bytes
            now_s = time.monotonic()
            if now_s - self._last_s < _LINE_EVERY_S:
                return
            self._last_s = now_s
            rate_per_s = max(1.0, self._done / (now_s - self._start_s))
            done = (
                f"{self._done >> 20:,} of {self._total >> 20:,} MiB, "
                f"{rate_per_s / (1 << 20):,.0f} MiB/s, "
                f"{max(0, self._total - self._done) / rate_per_s:.0f} s left"
            )
        print(f"fanstore: {self._title}: {done}", file=sys.stderr, flush=True)


class _Bar:
    """A tqdm bar, made at the first call of `expect` with more than 0 bytes."""

    def __init__(self, stack: contextlib.ExitStack, title: str) -> None:
        self._stack = stack
        self._title = title
        self._mutex = threading.Lock()
        self._bar: Any = None

    def expect(self, total_bytes: int) -> None:
        if self._bar is not None:
            self._bar.total = total_bytes
        if self._bar is not None or total_bytes == 0:
            return
        from tqdm import tqdm

        self._bar = self._stack.enter_context(
            tqdm(total=total_bytes, unit="B", unit_scale=True, desc=self._title, leave=False)
        )

    def advance(self, amount_bytes: int) -> None:
        with self._mutex:
            if self._bar is not None:
                self._bar.update(amount_bytes)


class Meter:
    """Computes the steps that a Progress expects from running totals."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done = self._total = 0

    def show(self, done_bytes: int, total_bytes: int) -> None:
        """Passes on that `done_bytes` of `total_bytes` are done."""
        if total_bytes != self._total:
            self._progress.expect(total_bytes)
            self._total = total_bytes
        if done_bytes != self._done:
            self._progress.advance(done_bytes - self._done)
            self._done = done_bytes


@contextlib.contextmanager
def progress_of(title: str, *, quiet: bool) -> Iterator[Progress]:
    """Yields a Progress that writes to stderr: a bar on a terminal, otherwise lines; nothing if
    `quiet`."""
    with contextlib.ExitStack() as stack:
        if quiet:
            yield _Silent()
        elif sys.stderr.isatty():
            yield _Bar(stack, title)
        else:
            yield _Lines(title)
