"""Calls from one rank to others, by name."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import Any


class Peers:
    """Calls from this rank to others. Between two ranks, calls start in the order in which they
    were made. This class alone serves a job of one rank: every call runs a function of this rank
    itself. ConnectedPeers adds the calls of other ranks."""

    def __init__(self, rank: int = 0, world_size: int = 1) -> None:
        self.rank = rank
        self.world_size = world_size
        self._functions: dict[str, Callable[..., Any]] = {}

    def serve(self, name: str, function: Callable[..., Any]) -> None:
        """Registers function(sender_rank, *args), which may be a coroutine, under `name`: other
        ranks can call it."""
        self._functions[name] = function

    async def call(self, rank: int, name: str, *args: Any) -> Any:
        """Calls the function `name` of a rank and returns its result, or raises the OSError that it
        raises. Raises RankGone (EIO) if the rank is lost."""
        result = self._functions[name](rank, *args)
        return await result if inspect.isawaitable(result) else result

    async def call_each(
        self, ranks: Iterable[int], call_of: Callable[[int], tuple[Any, ...]]
    ) -> list[Any]:
        """Calls some ranks at once, each with the name and the arguments that `call_of` returns for
        it; returns the results of those that are not lost. Raises the first error after all have
        answered."""
        living = [rank for rank in ranks if not self.is_lost(rank)]
        calls = [self.call(rank, *call_of(rank)) for rank in living]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for rank, result in zip(living, results, strict=True):
            if isinstance(result, BaseException) and not self.is_lost(rank):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

    def tell(self, rank: int, name: str, *args: Any) -> None:
        """Calls the function `name` of a rank without waiting for an answer; does nothing if the
        rank is lost."""
        self._functions[name](rank, *args)

    def is_lost(self, rank: int) -> bool:
        """Returns whether that rank has died, or has been silent for so long that it counts as
        dead."""
        return False

    def on_lost(self, callback: Callable[[int], None]) -> None:
        """Makes callback(rank) be called once for each rank that is lost from now on."""
