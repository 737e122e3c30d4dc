"""Peers of a rank that has no others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


class Alone:
    """interface.Peers of a world of one."""

    rank = 0
    world_size = 1

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}

    def serve(self, name: str, function: Callable[..., Any]) -> None:
        """Answers calls of `name`."""
        self._functions[name] = function

    async def call(self, rank: int, name: str, *args: Any) -> Any:
        """What the function returns."""
        result = self._functions[name](rank, *args)
        return await result if inspect.isawaitable(result) else result

    def tell(self, rank: int, name: str, *args: Any) -> None:
        """Without an answer. What is told is no coroutine."""
        self._functions[name](rank, *args)

    def is_lost(self, rank: int) -> bool:
        """Never."""
        return False

    def on_lost(self, callback: Callable[[int], None]) -> None:
        """Never calls it."""
