"""Provides NumPy as `np` without the threads of its linear algebra. NumPy would start one thread
for each core of a node, which busy-wait at first, and FanStore does not need them."""

from __future__ import annotations

import os

_LIMIT = "OPENBLAS_NUM_THREADS"
_limits = _LIMIT not in os.environ

# Restores the environment for the commands that this process runs: they may use such threads.
if _limits:
    os.environ[_LIMIT] = "1"
try:
    import numpy as np
finally:
    if _limits:
        del os.environ[_LIMIT]

__all__ = ["np"]
