"""NumPy, as `np`, without the threads of its linear algebra: it would start one for each core of a
node, which busy-wait at first, and FanStore does not use them."""

from __future__ import annotations

import os

_LIMIT = "OPENBLAS_NUM_THREADS"
_limits = _LIMIT not in os.environ

# The limit is for this process only: the commands that it runs may use threads.
if _limits:
    os.environ[_LIMIT] = "1"
try:
    import numpy as np
finally:
    if _limits:
        del os.environ[_LIMIT]

__all__ = ["np"]
