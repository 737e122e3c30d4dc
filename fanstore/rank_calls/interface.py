"""The interface of calls between ranks, for the code that makes and answers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Peers(Protocol):
    """Calls from this rank to others. Between two ranks, calls start in the order in which they
    were made."""

    @property
    def rank(self) -> int:
        """This rank's number."""

    @property
    def world_size(self) -> int:
        """The number of ranks of the job."""

    def serve(self, name: str, function: Callable[..., Any]) -> None:
        """Answers calls of `name` by function(sender_rank, *args), which may be a coroutine."""

    async def call(self, rank: int, name: str, *args: Any) -> Any:
        """Returns the result of the function on that rank, or raises the OSError that it raises;
        RankGone (EIO) if the rank is lost."""

    def tell(self, rank: int, name: str, *args: Any) -> None:
        """Calls the function on that rank without an answer; does nothing if the rank is lost."""

    def is_lost(self, rank: int) -> bool:
        """Returns whether that rank has died, or has been silent for so long that it counts as
        dead."""

    def on_lost(self, callback: Callable[[int], None]) -> None:
        """Makes callback(rank) be called once for each rank that is lost from now on."""
