"""The memory that FanStore takes of a node, and for what: the block cache, and all that lies in a
local directory in memory (indexes, packs). --memory-bytes bounds them together."""

from __future__ import annotations

from dataclasses import dataclass

from fanstore.config import CACHE_LEAST_BYTES, Settings
from fanstore.errors import UsageError
from fanstore.load import memory
from fanstore.wording import show_bytes

# What FanStore takes of the memory that is left where nobody says how much: programs need the rest.
_SHARE = 0.5
_CACHE_SHARE = 0.2
_CACHE_MAX_BYTES = 1 << 30
_PASSING_BYTES = 64 << 20


@dataclass(frozen=True)
class Budget:
    """What one rank may take of its node's memory.

    available_bytes: what is left before anything is taken; allowed_bytes: --memory-bytes, None
    where it was not given; cache_bytes: what the block cache takes; tables_bytes: what the job's
    segment takes but for what grows with its datasets.
    """

    available_bytes: int
    allowed_bytes: int | None
    cache_bytes: int
    tables_bytes: int = 0

    @property
    def limit_bytes(self) -> int:
        """The most that all takes together."""
        if self.allowed_bytes is not None:
            return self.allowed_bytes
        return int(self.available_bytes * _SHARE)

    @property
    def rest_bytes(self) -> int:
        """What block cache and tables leave for a local directory in memory."""
        return max(0, self.limit_bytes - self.cache_bytes - self.tables_bytes)


def budget_of(settings: Settings) -> Budget:
    """Returns the budget of this rank, to be asked for before anything is staged. Raises
    UsageError where the block cache alone is more than all that is allowed."""
    available = memory.left_bytes()
    allowed = settings.memory_bytes
    budget = Budget(available, allowed, 0)
    cache_bytes = settings.cache_bytes or _default_cache_bytes(budget.limit_bytes)
    if settings.cache_policy == "none":
        cache_bytes = min(cache_bytes, _PASSING_BYTES)
    if allowed is not None and cache_bytes > allowed:
        raise UsageError(
            f"--memory-bytes allows {show_bytes(allowed)}, the block cache takes "
            f"{show_bytes(cache_bytes)}: allow more, or less for --cache-bytes"
        )
    return Budget(available, allowed, cache_bytes)


def _default_cache_bytes(limit_bytes: int) -> int:
    """Returns the smaller of 1 GiB and a fifth of the memory that may be taken, but enough to
    work."""
    return max(CACHE_LEAST_BYTES, min(_CACHE_MAX_BYTES, int(limit_bytes * _CACHE_SHARE)))
