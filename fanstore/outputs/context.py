"""What every operation works with, and how it tells the owners of objects what became of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fanstore.outputs.entries import Entry, Place, Slot, owner_of
from fanstore.outputs.gate import Gate
from fanstore.outputs.home import Removed
from fanstore.outputs.homes import Homes
from fanstore.outputs.interfaces import Drafts, Inputs, ObjectStore, Observer, Peers
from fanstore.outputs.walk import Resolved, Walker
from fanstore.outputs.wire import Answer, Where

TRIES = 100  # of an operation under whose hands a name changes

T = TypeVar("T")


@dataclass(frozen=True)
class Context:
    """One rank's parts."""

    peers: Peers
    inputs: Sequence[Inputs]
    homes: Homes
    gate: Gate
    drafts: Drafts
    store: ObjectStore
    observer: Observer
    walker: Walker

    def elsewhere(self, found: Resolved) -> Answer:
        """The answer to a path that ends out of the outputs: there, or at an input."""
        path = found.elsewhere
        if path is None:
            prefix = self.inputs[found.mount].prefixes[0]
            path = prefix + b"/" + found.path if found.path else prefix
        return Answer(Where.ELSEWHERE, text=path)

    def gone(self, removed: Removed) -> None:
        """Objects that no name stands for any more."""
        if removed.entry is not None and has_file(removed.entry):
            self.store.discard(removed.entry.object_id)
            self._tell_owner("object.unnamed", removed.entry.object_id)
        if removed.draft is not None:
            self._tell_owner("draft.unnamed", removed.draft)

    async def moved(self, slot: Slot, place: Place) -> None:
        """A name was moved, with what it stands for."""
        if slot.entry is not None and has_file(slot.entry):
            self._tell_owner("object.moved", slot.entry.object_id, place)
        if slot.draft is not None and not self.peers.is_lost(owner_of(slot.draft)):
            await self.peers.call(owner_of(slot.draft), "draft.moved", slot.draft, place)

    def _tell_owner(self, name: str, object_id: int, *rest: Any) -> None:
        self.peers.tell(owner_of(object_id), name, object_id, *rest)

    async def everywhere(self, name: str, *args: Any) -> list[Any]:
        """Calls all ranks, one after the other; lost ones are left out."""
        return await self.at(range(self.peers.world_size), lambda _: (name, *args))

    async def at(
        self, ranks: Iterable[int], call_of: Callable[[int], tuple[Any, ...]]
    ) -> list[Any]:
        """The results of a call on each of these ranks; lost ones are left out."""
        results = []
        for rank in ranks:
            try:
                results.append(await self.peers.call(rank, *call_of(rank)))
            except OSError:
                if not self.peers.is_lost(rank):
                    raise
        return results


def has_file(entry: Entry) -> bool:
    """Whether there is more to it than its name."""
    return not entry.is_directory and not entry.is_link


Operation = Callable[[Any], Awaitable[Answer]]
