"""The interface of calls between ranks."""

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
        """Registers function(sender_rank, *args), which may be a coroutine, under `name`: other
        ranks can call it."""

    async def call(self, rank: int, name: str, *args: Any) -> Any:
        """Calls the function `name` of a rank and returns its result, or raises the OSError that it
        raises. Raises RankGone (EIO) if the rank is lost."""

    def tell(self, rank: int, name: str, *args: Any) -> None:
        """Calls the function `name` of a rank without waiting for an answer; does nothing if the
        rank is lost."""

    def is_lost(self, rank: int) -> bool:
        """Returns whether that rank has died, or has been silent for so long that it counts as
        dead."""

    def on_lost(self, callback: Callable[[int], None]) -> None:
        """Makes callback(rank) be called once for each rank that is lost from now on."""
