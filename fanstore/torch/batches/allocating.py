"""Memory that a worker's samples take and free, batch after batch."""

from __future__ import annotations

import ctypes
import os

# mallopt(3). 32 MiB is the most that glibc takes for the first.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
_THRESHOLDS = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 1 << 30}
_OWN_CHOICES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed() -> None:
    """Has malloc keep up to 1 GiB that this process frees, for the next sample. Given back to the
    kernel, an image's memory costs more to get again than decoding it does. Where the environment
    sets such thresholds, or malloc is not glibc's, nothing changes."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name in os.environ for name in _OWN_CHOICES):
        return
    for option, value in _THRESHOLDS.items():
        mallopt(option, value)
