"""What others need of the calls between ranks, whether there are other ranks or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Peers(Protocol):
    """Calls between ranks. Between two ranks, calls start in the order in which they were made."""

    @property
    def rank(self) -> int:
        """This rank."""

    @property
    def world_size(self) -> int:
        """How many ranks there are."""

    def serve(self, name: str, function: Callable[..., Any]) -> None:
        """Answers calls of `name` by function(sender_rank, *args), which may be a coroutine."""

    async def call(self, rank: int, name: str, *args: Any) -> Any:
        """What the function of that rank returns, or the OSError that it raises; RankGone (EIO)
        when the rank is lost."""

    def tell(self, rank: int, name: str, *args: Any) -> None:
        """Without an answer; nothing happens when the rank is lost."""

    def is_lost(self, rank: int) -> bool:
        """Whether that rank is no more."""

    def on_lost(self, callback: Callable[[int], None]) -> None:
        """Has callback(rank) called once for each rank that is lost."""
