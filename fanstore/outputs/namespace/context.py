"""What every operation works with, and how it tells the owners of objects what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fanstore.outputs.drafts.drafts import Drafts
from fanstore.outputs.model.entries import Place, Slot, owner_of
from fanstore.outputs.model.interfaces import Inputs, Observer
from fanstore.outputs.model.wire import Answer, Request, Where
from fanstore.outputs.namespace.walk import Resolved, Walker, check_name
from fanstore.outputs.objects.objects import ObjectStore
from fanstore.outputs.objects.versions import Versions
from fanstore.outputs.ranks.asking import ask_each
from fanstore.outputs.ranks.gate import Gate
from fanstore.outputs.ranks.home_client import HomeClient
from fanstore.peers.interface import Peers

DONE = Answer(Where.DONE)


class Outside(Exception):
    """Ends an operation whose path leads to an input, or out of the mounts. text: the absolute path
    to go on with, or both, with a NUL between them."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.text = text


@dataclass(eq=False)
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

    async def resolve(
        self, request: Request, follow: bool = True, create: bool = False
    ) -> Resolved:
        """Resolves the path of a request; see Walker.resolve. Raises Outside."""
        found = await self.walker.resolve(request.view, request.path, request.pid, follow, create)
        if found.elsewhere is not None:
            raise Outside(found.elsewhere)
        return found

    async def name(self, request: Request) -> Resolved:
        """Resolves the path of a name that is to be changed; see Walker.name. Raises Outside."""
        found = await self.walker.name(request.view, request.path, request.pid)
        if found.elsewhere is not None:
            raise Outside(found.elsewhere)
        check_name(found)
        return found

    def at_input(self, found: Resolved) -> Outside:
        """Returns (does not raise) the way on of a path that ends at an input."""
        prefix = self.inputs[found.mount].prefixes[0]
        return Outside(prefix + b"/" + found.path if found.path else prefix)

    async def gone(self, slot: Slot) -> None:
        """Tells the owners of objects that no name stands for them any more; the files are
        removed."""
        if slot.entry is not None and slot.entry.is_file:
            await self._tell_owner("object.unnamed", slot.entry.object_id)
            self.store.discard(slot.entry.object_id)
        if slot.draft is not None:
            await self._tell_owner("draft.unnamed", slot.draft)

    async def moved(self, slot: Slot, place: Place) -> None:
        """Tells the owners of objects that the name which stands for them was moved to `place`."""
        if slot.entry is not None and slot.entry.is_file:
            await self._tell_owner("object.moved", slot.entry.object_id, place)
        if slot.draft is not None:
            await self._tell_owner("draft.moved", slot.draft, place)

    async def _tell_owner(self, name: str, object_id: int, *rest: Any) -> None:
        await ask_each(self.peers, [owner_of(object_id)], lambda _: (name, object_id, *rest))
