"""The interface Peers for a job of one rank."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


class Alone:
    """Implements Peers for a job of one rank: every call runs a function of this rank itself."""

    rank = 0
    world_size = 1

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}

    def serve(self, name: str, function: Callable[..., Any]) -> None:
        """Registers function(rank, *args), which may be a coroutine, under `name`."""
        self._functions[name] = function

    async def call(self, rank: int, name: str, *args: Any) -> Any:
        """Returns the result of the function registered for `name`."""
        result = self._functions[name](rank, *args)
        return await result if inspect.isawaitable(result) else result

    def tell(self, rank: int, name: str, *args: Any) -> None:
        """Calls the function registered for `name`, which must not be a coroutine."""
        self._functions[name](rank, *args)

    def is_lost(self, rank: int) -> bool:
        """Returns False: this rank itself is never lost."""
        return False

    def on_lost(self, callback: Callable[[int], None]) -> None:
        """Does nothing, because no rank can be lost."""
