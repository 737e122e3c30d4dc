"""Renames without losing what others put there: renameat2(2), and other ways where it is
missing."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os

_AT_FDCWD = -100
_NOREPLACE, _EXCHANGE = 1, 2
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})
_libc = ctypes.CDLL(None, use_errno=True)


def _renameat2(old: bytes, new: bytes, flags: int) -> bool:
    """Tells whether the file system can do that, and does it. Raises OSError where it can and it
    failed."""
    if _libc.renameat2(_AT_FDCWD, old, _AT_FDCWD, new, flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), old, None, new)


def rename_to_free(old: bytes, new: bytes) -> None:
    """Renames to a name that is free. Raises FileExistsError where it is not."""
    if _renameat2(old, new, _NOREPLACE):
        return
    try:
        os.link(old, new, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a directory, or a file system without hard links: only nearly safe
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from None
        os.rename(old, new)
    else:
        os.unlink(old)


def exchange(one: bytes, other: bytes) -> bool:
    """Lets two names change places; returns False where the file system cannot."""
    return _renameat2(one, other, _EXCHANGE)


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
