"""Standard streams that are closed, full or cut off: told as other commands tell it."""

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
    """A BrokenPipeError that click does not see: it would end the process with 1, silently."""

    def __init__(self, error: BrokenPipeError) -> None:
        super().__init__(str(error))
        self.of_output = error.filename == OUTPUT_NAME


@contextmanager
def past_click() -> Iterator[None]:
    """Turns BrokenPipeError into PipeBroken, as click would end the program on the former without a
    word."""
    try:
        yield
    except BrokenPipeError as error:
        raise PipeBroken(error) from error


class _Output(io.FileIO):
    """Standard output that names itself in its errors."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = OUTPUT_NAME
            raise


def complete_streams() -> None:
    """Takes the numbers of closed streams, so that no file of ours gets them. Writing to a closed
    standard output is an error; what goes to a closed standard error is dropped. The commands that
    we start find closed what was closed."""
    for fd, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError as error:
            if error.errno == errno.EBADF:
                os.open(os.devnull, flags)  # the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if sys.stdout is sys.__stdout__:  # which is None where it is closed
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(1, "w", closefd=False)),
            encoding=getattr(sys.stdout, "encoding", None),
            errors=getattr(sys.stdout, "errors", None),
            line_buffering=os.isatty(1),
        )


def output_error() -> OSError | None:
    """Returns what keeps standard output from being written, if anything does. What was not written
    is dropped then: the interpreter would try again at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return error
    return None


def end_by_sigpipe() -> NoReturn:
    """Ends this process by SIGPIPE, as programs do whose reader has gone."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.raise_signal(signal.SIGPIPE)
    os._exit(128 + signal.SIGPIPE)
