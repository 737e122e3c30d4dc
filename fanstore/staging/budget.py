"""The memory that FanStore may use on a node: for the block cache, and for the files in a local
directory in memory (indexes, packs). --memory-bytes limits their sum."""

from __future__ import annotations

import contextlib
import glob
import os
from dataclasses import dataclass, replace

from fanstore.config import CACHE_LEAST_BYTES, Settings
from fanstore.errors import UsageError
from fanstore.staging import memory
from fanstore.staging.base import StagingFolder
from fanstore.staging.local_dir import LocalDirectory
from fanstore.wording import show_bytes

# The share of the available memory that FanStore uses by default: programs need the rest.
_SHARE = 0.5
_CACHE_SHARE = 0.2
_CACHE_MAX_BYTES = 1 << 30
# The policies under which a block can stay for good.
_KEEPING = ("belady", "minio")
# The most that the block cache takes beyond its content: it rounds to pages (mounts.h), and adds
# sessions, tables and room for blocks that pass through (segment.h).
_ON_TOP_SHARE = 2 / 3
_ON_TOP_LEAST_BYTES = 5 << 20


@dataclass(frozen=True)
class Budget:
    """The memory that one rank may use on its node.

    available_bytes: the memory left at the start; allowed_bytes: the value of --memory-bytes, None
    if not given; cache_bytes: bytes of content that the block cache keeps; staged_bytes: the size
    of the files that are already in a local directory in memory; tables_bytes: the size of the
    job's segment without the parts that grow with its datasets; kept_in_cache_bytes: bytes of its
    share that the rank can keep in the block cache."""

    available_bytes: int
    allowed_bytes: int | None
    cache_bytes: int
    staged_bytes: int = 0
    tables_bytes: int = 0
    kept_in_cache_bytes: int = 0

    @property
    def limit_bytes(self) -> int:
        """The limit on the sum of all memory that the rank uses."""
        if self.allowed_bytes is not None:
            return self.allowed_bytes
        return int((self.available_bytes + self.staged_bytes) * _SHARE)

    @property
    def rest_bytes(self) -> int:
        """The limit for files in a local directory in memory, including those already there."""
        return max(0, self.limit_bytes - self.whole_cache_bytes - self.tables_bytes)

    @property
    def whole_cache_bytes(self) -> int:
        """The most memory of the block cache: its content, what passes through, and its tables."""
        return self.cache_bytes + int(self.cache_bytes * _ON_TOP_SHARE) + _ON_TOP_LEAST_BYTES


def budget_of(settings: Settings, local: LocalDirectory) -> Budget:
    """Returns the budget of this rank. Call it before anything is staged in `local`. Raises
    UsageError if the block cache alone exceeds --memory-bytes."""
    allowed = settings.memory_bytes
    budget = Budget(memory.left_bytes(), allowed, 0, _staged_bytes(local))
    cache_bytes = settings.cache_bytes or _default_cache_bytes(budget.limit_bytes)
    kept_bytes = cache_bytes if settings.cache_policy in _KEEPING else 0
    budget = replace(budget, cache_bytes=cache_bytes, kept_in_cache_bytes=kept_bytes)
    if allowed is not None and budget.whole_cache_bytes > allowed:
        raise UsageError(
            f"--memory-bytes allows {show_bytes(allowed)}, and a block cache with "
            f"{show_bytes(cache_bytes)} of content may take {show_bytes(budget.whole_cache_bytes)}:"
            " allow more, or less for --cache-bytes"
        )
    return budget


def _staged_bytes(local: LocalDirectory) -> int:
    """Returns the size of the datasets in a local directory in memory that earlier jobs left or
    other jobs use; 0 if the directory is on a disk."""
    if not local.in_memory:
        return 0
    pattern = os.path.join(glob.escape(StagingFolder(local.path).folder("datasets")), "*", "*")
    total = 0
    for path in glob.iglob(pattern):
        with contextlib.suppress(FileNotFoundError):
            total += os.lstat(path).st_blocks * 512
    return total


def _default_cache_bytes(limit_bytes: int) -> int:
    """Returns the smaller of 1 GiB and a fifth of the allowed memory, but at least the smallest
    size with which the cache works."""
    return max(CACHE_LEAST_BYTES, min(_CACHE_MAX_BYTES, int(limit_bytes * _CACHE_SHARE)))
