"""Telling how far a long operation is: a bar on a terminal, otherwise a line now and then."""

from __future__ import annotations

import sys
import time
from typing import Any

_LINE_EVERY_S = 5.0


def show_bytes(count: float) -> str:
    """A number of bytes for people, in binary units."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


class Progress:
    """Counts files and logical bytes towards known totals, on stderr. A context manager."""

    def __init__(self, files: int, logical_bytes: int) -> None:
        self._files = files
        self._bytes = logical_bytes
        self._done_files = 0
        self._done_bytes = 0
        self._start = self._shown = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                total=self._bytes, unit="B", unit_scale=True, unit_divisor=1024, desc="prepare"
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self, files: int, logical_bytes: int) -> None:
        """Notes what was done."""
        self._done_files += files
        self._done_bytes += logical_bytes
        if self._bar is not None:
            self._bar.update(logical_bytes)
        elif time.monotonic() - self._shown >= _LINE_EVERY_S:
            self._shown = time.monotonic()
            print(self._line(self._shown - self._start), file=sys.stderr, flush=True)

    def _line(self, elapsed_s: float) -> str:
        rate_per_s = self._done_bytes / elapsed_s
        left_s = (self._bytes - self._done_bytes) / rate_per_s if rate_per_s else 0.0
        return (
            f"fanstore: prepare: {self._done_files:,} of {self._files:,} files, "
            f"{show_bytes(self._done_bytes)} of {show_bytes(self._bytes)}, "
            f"{show_bytes(rate_per_s)}/s, {left_s:.0f} s left"
        )
