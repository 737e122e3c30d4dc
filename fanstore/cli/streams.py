"""Handles standard streams that are closed, full or cut off, as other commands do."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

OUTPUT_NAME = "standard output"


class PipeBroken(Exception):
    """Stands for a BrokenPipeError, at which click would end the process silently with 1."""

    def __init__(self, error: BrokenPipeError) -> None:
        super().__init__(str(error))
        self.of_output = error.filename == OUTPUT_NAME


@contextmanager
def past_click() -> Iterator[None]:
    """Turns BrokenPipeError into PipeBroken, because click would end the program silently."""
    try:
        yield
    except BrokenPipeError as error:
        raise PipeBroken(error) from error


class _Output(io.FileIO):
    """Standard output; its errors have the file name OUTPUT_NAME."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = OUTPUT_NAME
            raise


def complete_streams() -> None:
    """Occupies the descriptors of closed standard streams, so that no file of ours gets them.
    Writing to a closed standard output is an error; text for a closed standard error is dropped.
    Commands that we start find closed streams closed."""
    for fd, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError as error:
            if error.errno == errno.EBADF:
                os.open(os.devnull, flags)  # gets the lowest free descriptor
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if sys.stdout is sys.__stdout__:  # both are None if it is closed
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(1, "w", closefd=False)),
            encoding=getattr(sys.stdout, "encoding", None),
            errors=getattr(sys.stdout, "errors", None),
            line_buffering=os.isatty(1),
        )


def output_error() -> OSError | None:
    """Flushes standard output and returns the error, or None. After an error the unwritten text is
    dropped: the interpreter would try again at its end, and print a warning."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return error
    return None


def end_by_sigpipe() -> NoReturn:
    """Ends this process by SIGPIPE, as usual if the reader of a pipe has gone."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.raise_signal(signal.SIGPIPE)
    os._exit(128 + signal.SIGPIPE)
