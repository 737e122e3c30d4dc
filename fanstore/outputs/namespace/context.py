"""What every operation works with, and how it tells the owners of objects what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fanstore.outputs.drafts.drafts import Drafts
from fanstore.outputs.model.entries import Place, Slot, owner_of
from fanstore.outputs.model.interfaces import Inputs, Observer
from fanstore.outputs.model.name_tables import Removed
from fanstore.outputs.model.wire import Answer, Where
from fanstore.outputs.namespace.walk import Resolved, Walker
from fanstore.outputs.objects.objects import ObjectStore
from fanstore.outputs.objects.versions import Versions
from fanstore.outputs.ranks.gate import Gate
from fanstore.outputs.ranks.home_client import HomeClient
from fanstore.peers.interface import Peers

TRIES = 100  # how often an operation begins anew because a name changed meanwhile


@dataclass(frozen=True)
class Context:
    """The parts of one rank that its operations work with."""

    peers: Peers
    inputs: Sequence[Inputs]
    homes: HomeClient
    gate: Gate
    drafts: Drafts
    store: ObjectStore
    versions: Versions
    observer: Observer
    walker: Walker

    def elsewhere(self, found: Resolved) -> Answer:
        """Returns the answer to a path that ends outside the outputs: where it goes on, or at an
        input."""
        path = found.elsewhere
        if path is None:
            prefix = self.inputs[found.mount].prefixes[0]
            path = prefix + b"/" + found.path if found.path else prefix
        return Answer(Where.ELSEWHERE, text=path)

    async def gone(self, removed: Removed) -> None:
        """Tells the owners of objects that no name stands for them any more; the files are
        removed."""
        if removed.entry is not None and removed.entry.is_file:
            await self._tell_owner("object.unnamed", removed.entry.object_id)
            self.store.discard(removed.entry.object_id)
        if removed.draft is not None:
            await self._tell_owner("draft.unnamed", removed.draft)

    async def moved(self, slot: Slot, place: Place) -> None:
        """Tells the owners of objects that the name which stands for them was moved to `place`."""
        if slot.entry is not None and slot.entry.is_file:
            await self._tell_owner("object.moved", slot.entry.object_id, place)
        if slot.draft is not None:
            await self._tell_owner("draft.moved", slot.draft, place)

    async def _tell_owner(self, name: str, object_id: int, *rest: Any) -> None:
        await self.at([owner_of(object_id)], lambda _: (name, object_id, *rest))

    async def everywhere(self, name: str, *args: Any) -> list[Any]:
        """Calls all ranks; returns the results of those that are not lost."""
        return await self.at(range(self.peers.world_size), lambda _: (name, *args))

    async def at(
        self, ranks: Iterable[int], call_of: Callable[[int], tuple[Any, ...]]
    ) -> list[Any]:
        """Calls some ranks at once; returns the results of those that are not lost. Raises the
        first OSError once all have answered."""
        living = [rank for rank in ranks if not self.peers.is_lost(rank)]
        if living == [self.peers.rank]:
            return [await self.peers.call(self.peers.rank, *call_of(self.peers.rank))]
        calls = [self.peers.call(rank, *call_of(rank)) for rank in living]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for rank, result in zip(living, results, strict=True):
            if isinstance(result, BaseException) and not self.peers.is_lost(rank):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]
