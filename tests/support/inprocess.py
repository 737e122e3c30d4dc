"""Calling the command line in this process."""

from __future__ import annotations

import contextlib
import io
import os
from dataclasses import dataclass

from fanstore.cli import main


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    stdout: bytes
    stderr: str


def call(*arguments: str | os.PathLike[str], code: int | None = 0) -> Done:
    """Runs `fanstore` with arguments and compares the exit code, unless that is None."""
    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    found = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([os.fspath(argument) for argument in arguments])
        except SystemExit as end:
            found = end.code if isinstance(end.code, int) else 1
        finally:
            out.flush()
            err.flush()
    assert isinstance(out.buffer, io.BytesIO)
    assert isinstance(err.buffer, io.BytesIO)
    done = Done(found, out.buffer.getvalue(), err.buffer.getvalue().decode(errors="replace"))
    assert code in (None, done.code), done
    return done
