"""Keeps the daemon's log, once its parent's standard error is the command's alone."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any


class _Dropping(io.FileIO):
    """A file that drops what the disk does not take, so that no daemon ends for want of a log."""

    def write(self, data: Any) -> int:
        with contextlib.suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes


def log_to(path: str) -> None:
    """Has standard error go to a file from here on."""
    sys.stderr.flush()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        fd = os.open(path, flags, 0o600)
    except OSError:
        fd = os.open(os.devnull, os.O_WRONLY)
    os.dup2(fd, 2)
    os.close(fd)
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(_Dropping(2, "w", closefd=False)),
        errors="backslashreplace",
        line_buffering=True,
    )
