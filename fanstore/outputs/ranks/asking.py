"""Asks several ranks at once, and gathers their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from fanstore.rank_calls.interface import Peers


async def ask_each(
    peers: Peers, ranks: Iterable[int], call_of: Callable[[int], tuple[Any, ...]]
) -> list[Any]:
    """Calls some ranks at once; returns the results of those that are not lost. Raises the first
    error after all have answered."""
    living = [rank for rank in ranks if not peers.is_lost(rank)]
    calls = [peers.call(rank, *call_of(rank)) for rank in living]
    results = await asyncio.gather(*calls, return_exceptions=True)
    for rank, result in zip(living, results, strict=True):
        if isinstance(result, BaseException) and not peers.is_lost(rank):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


async def ask_all(peers: Peers, name: str, *args: Any) -> list[Any]:
    """Makes the same call to all ranks; otherwise like ask_each."""
    return await ask_each(peers, range(peers.world_size), lambda _: (name, *args))
