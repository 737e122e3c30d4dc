"""A file that appears whole or not at all, whatever signals come meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fanstore._native import check, lib
from fanstore.errors import UsageError
from fanstore.interruption import Ended, Ending, Interrupted, ending_on_signals


def check_free(path: Path, force: bool) -> None:
    """Refuses a path in no directory, one that is there already (with `force`: one that is no
    regular file). Raises UsageError."""
    parent = path.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"{path}: there is no directory {parent}")
    if os.path.lexists(path) and not force:
        raise UsageError(f"{path}: exists already (--force replaces it)")
    if os.path.lexists(path) and not path.is_file():
        raise UsageError(f"{path}: is no regular file, and is not replaced")


@contextmanager
def whole_file(path: Path, force: bool) -> Iterator[BinaryIO]:
    """Yields a file to write to; it gets its name, and its content is durable, when the block ends.
    Nothing is left behind otherwise. Raises UsageError as check_free does, OSError with the name of
    `path`, and Interrupted after a signal."""
    with ending_on_signals() as ending:
        try:
            check_free(path, force)
            # The target of a symbolic link is replaced, not the link.
            final = path.resolve()
            part = final.with_name(f".{final.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
            try:
                with part.open("xb") as stream:
                    yield stream
                    stream.flush()
                    os.fsync(stream.fileno())
                _give_name(part, final, path, force, ending)
            finally:
                with suppress(FileNotFoundError):
                    part.unlink()
        except Ended as ended:
            state = "is as it was" if os.path.lexists(path) else "was not made"
            raise Interrupted(ended, f"{path} {state}, and nothing is left behind") from None
        except OSError as error:
            error.filename = os.fspath(path)
            raise


def _give_name(part: Path, final: Path, path: Path, force: bool, ending: Ending) -> None:
    ending.ignore()
    if force:
        part.replace(final)
        return
    rc = lib.fan_rename(os.fsencode(part), os.fsencode(final), 0)
    if rc < 0 and os.path.lexists(final):
        raise UsageError(f"{path}: exists already (--force replaces it)")
    check(rc, path)
