"""Whether the system calls that libraries make by themselves can be redirected here."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys

_FAILED = ctypes.c_void_p(-1).value


def problem() -> str | None:
    """Why loaded code cannot be changed in a process like this one; None: it can."""
    if platform.machine() != "x86_64":
        return f"not redirected on {platform.machine()}"
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    with open(sys.executable, "rb") as code:
        protection = mmap.PROT_READ | mmap.PROT_EXEC
        at = libc.mmap(None, mmap.PAGESIZE, protection, mmap.MAP_PRIVATE, code.fileno(), 0)
    if at == _FAILED:
        return f"code cannot be mapped ({os.strerror(ctypes.get_errno())})"
    page = ctypes.c_void_p(at), ctypes.c_size_t(mmap.PAGESIZE)
    refused = libc.mprotect(*page, protection | mmap.PROT_WRITE) != 0
    reason = os.strerror(ctypes.get_errno())
    libc.munmap(*page)
    return f"the system forbids to change loaded code ({reason})" if refused else None
