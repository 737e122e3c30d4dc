"""Renames without losing what others put there."""

from __future__ import annotations

import contextlib
import errno
import os

from fanstore._native import lib


def _check(number: int, old: bytes, new: bytes) -> None:
    if number:
        raise OSError(number, os.strerror(number), old, None, new)


def rename_to_free(old: bytes, new: bytes) -> None:
    """Renames to a name that is free. Raises FileExistsError where it is not."""
    _check(lib.fan_rename_to_free(old, new), old, new)


def exchange(one: bytes, other: bytes) -> bool:
    """Lets two names change places; returns False where the file system cannot."""
    number = lib.fan_exchange_names(one, other)
    if number != errno.EOPNOTSUPP:
        _check(number, one, other)
    return not number


def back_up(path: bytes, beside: bytes) -> bytes:
    """Renames `path` to the first free one of `beside`.~1~, .~2~ and so on; returns that."""
    folder, name = os.path.split(beside)
    number = 1
    while True:
        suffix = b".~%d~" % number
        backup = os.path.join(folder, name[: 255 - len(suffix)] + suffix)
        with contextlib.suppress(FileExistsError):
            rename_to_free(path, backup)
            return backup
        number += 1
