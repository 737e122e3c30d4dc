"""What every operation works with: the parts of one rank, the publication of drafts, and how owners
of objects are told what became of them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fanstore.outputs.drafts.drafts import Drafts
from fanstore.outputs.drafts.watch import Process
from fanstore.outputs.model.entries import Attr, Changes, Entry, Place, Slot, failure, owner_of
from fanstore.outputs.model.interfaces import Inputs, Observer
from fanstore.outputs.model.partial import partial_names
from fanstore.outputs.model.wire import Answer, Where
from fanstore.outputs.objects.objects import ObjectStore
from fanstore.outputs.ranks.asking import ask_each
from fanstore.outputs.ranks.gate import Gate
from fanstore.outputs.ranks.homes import HomeClient
from fanstore.peers.interface import Peers

DONE = Answer(Where.DONE)
_RETRY_S = 0.005
_RETRIES = 400


class Outside(Exception):
    """Ends an operation whose path leads to an input, or out of the mounts. text: the absolute path
    to go on with, or both, with a NUL between them."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.text = text


@dataclass(eq=False)
class Context:
    """The parts of one rank that its operations work with, and the places of this rank's objects.
    It is the Publisher of Drafts (model/interfaces.py). observer: to be set before the first one is
    begun."""

    peers: Peers
    inputs: Sequence[Inputs]
    homes: HomeClient
    gate: Gate
    drafts: Drafts
    store: ObjectStore
    observer: Observer = field(init=False)

    def __post_init__(self) -> None:
        self._reserved: dict[int, Place | None] = {}  # allowed, but not known to Drafts yet
        self._askers: dict[int, int] = {}  # the processes that want those
        self._published: dict[int, Place] = {}
        serve = self.peers.serve
        serve("draft.look", self._look)
        serve("draft.moved", lambda _, *args: self._note_draft_place(*args))
        serve("object.moved", lambda _, *args: self.note_place(*args))
        serve("object.place", lambda _, object_id: self._place(object_id))
        serve("object.refresh", lambda _, *args: self.refresh(*args))
        serve("tree.moved", self._tree_moved)

    async def tell_place(self, slot: Slot, place: Place | None) -> None:
        """Tells the owners of objects where the name that stood for them is now; None: it is
        gone."""
        if slot.entry is not None and slot.entry.is_file:
            await self._tell_owner("object.moved", slot.entry.object_id, place)
        if slot.draft is not None:
            await self._tell_owner("draft.moved", slot.draft, place)

    async def _tell_owner(self, name: str, object_id: int, place: Place | None) -> None:
        await ask_each(self.peers, [owner_of(object_id)], lambda _: (name, object_id, place))

    # Publications.

    async def reserve(
        self, object_id: int, place: Place, pid: int, create: bool, exclusive: bool
    ) -> Slot:
        """Reserves a name for an object that a process wants to write; see NameTables.reserve. Once
        it is reserved, the caller must call end_reserve when Drafts is to know it, or when it is
        published, or give it up: until then it may be renamed."""
        self._reserved[object_id] = place
        self._askers[object_id] = pid
        result = None
        try:
            result = await self.homes.reserve(place, object_id, create, exclusive)
            if result.draft == object_id and result.entry is not None:
                self.store.follow(object_id, result.entry)
            return result
        finally:
            if result is None or result.draft != object_id:
                self.end_reserve(object_id)

    def end_reserve(self, object_id: int) -> Place | None:
        """Returns the place that is reserved for an object by now, None if its name is gone; the
        object may not be renamed by way of this any more."""
        del self._askers[object_id]
        return self._reserved.pop(object_id)

    async def give_up(self, object_id: int) -> None:
        """Ends a reservation, and the object that it was for."""
        await self.release_at(self.end_reserve(object_id), object_id)
        self.store.discard(object_id)

    def note(self, place: Place, entry: Entry) -> None:
        """Notes that a file of this rank has got a name."""
        self._published[entry.object_id] = place
        self.observer.published(place, entry)

    @contextlib.contextmanager
    def _naming(self, place: Place, entry: Entry) -> Iterator[None]:
        """Goes around what gives a file of this rank its name. As soon as its home rank has done
        that, others may move or remove it: they may be heard first."""
        self._published[entry.object_id] = place
        try:
            yield
        except BaseException:
            self._published.pop(entry.object_id, None)
            raise
        if entry.object_id in self._published:
            self.note(self._published[entry.object_id], entry)

    async def make(self, place: Place, mode: int) -> Entry:
        """Publishes an empty file, which nobody is writing, under a name that is free. Raises
        EEXIST."""
        store = self.store
        object_id = store.new_id()
        entry = Entry(object_id, store.create(object_id, mode))
        try:
            with self._naming(place, entry):
                await self.homes.insert(place, entry)
        except BaseException:
            store.discard(object_id)
            raise
        return entry

    def _place(self, object_id: int) -> tuple[Place, bool] | None:
        """Returns the place of an object of this rank, and whether it is published; None if it has
        no name."""
        draft = self.drafts.place_of(object_id)
        place = draft or self._published.get(object_id)
        return None if place is None else (place, draft is None)

    async def refresh(self, object_id: int, changes: Changes | None = None) -> None:
        """Publishes the attributes that an object of this rank has now, after `changes` that
        another rank's copy had."""
        place, store = self._published.get(object_id), self.store
        if place is None:
            return
        attr = store.attr(object_id) if changes is None else await store.change(object_id, changes)
        if await self.homes.change(place, object_id, attr):
            self.observer.changed(place)

    async def publish(self, object_id: int, attr: Attr) -> Entry | None:
        """Does what Publisher.publish says, also for an object whose name is reserved and which
        Drafts does not know."""
        entry = self.store.entry(object_id, attr)
        try:
            async with self.gate.passage(awaited=True):
                for _ in range(_RETRIES):
                    place = self._reserved.get(object_id) or self.drafts.place_of(object_id)
                    if place is None:
                        break
                    if await self._publish_at(place, entry):
                        return entry
                    # Renamed or removed a moment ago: whoever did it is about to tell.
                    await asyncio.sleep(_RETRY_S)
        finally:
            self.store.forget(object_id)
        self.store.discard(object_id)
        return None

    async def _publish_at(self, place: Place, entry: Entry) -> bool:
        with self._naming(place, entry):
            try:
                replaced = await self.homes.publish(place, entry)
            except OSError:
                self.observer.stranded(place, entry)
                with contextlib.suppress(OSError):
                    await self.homes.release(place, entry.object_id)
                raise
            if replaced is None:
                self._published.pop(entry.object_id, None)
                return False
            await self.tell_place(replaced, None)
        return True

    async def publish_partial(self, object_id: int, attr: Attr) -> None:
        """Does what Publisher.publish_partial says."""
        self.store.forget(object_id)
        async with self.gate.passage(awaited=True):
            place = self.drafts.place_of(object_id)
            if place is None:
                self.store.discard(object_id)
                return
            await self._name_partial(place, Entry(object_id, attr))
            # It may have been renamed meanwhile, by what its killed writer had asked for.
            await self.release_at(self.drafts.place_of(object_id), object_id)

    async def _name_partial(self, place: Place, entry: Entry) -> None:
        """Publishes an entry under the first free name of partial_names."""
        for name in partial_names(place.name):
            partial = Place(place.mount, place.directory, name)
            if self.inputs[place.mount].kind(partial.path) != "missing":
                continue
            try:
                with self._naming(partial, entry):
                    await self.homes.insert(partial, entry)
            except FileExistsError:
                continue
            except OSError:
                self.observer.stranded(partial, entry)
            return
        raise failure(errno.EEXIST, place.path)

    async def release(self, object_id: int) -> None:
        """Does what Publisher.release says."""
        async with self.gate.passage(awaited=True):
            await self.release_at(self.drafts.place_of(object_id), object_id)

    async def release_at(self, place: Place | None, object_id: int) -> None:
        """Gives a reserved name back. A home rank that is lost has forgotten it anyway."""
        if place is not None:
            with contextlib.suppress(OSError):
                await self.homes.release(place, object_id)

    # What other ranks tell.

    def note_place(self, object_id: int, place: Place | None) -> None:
        """Notes where a published object of this rank is now; without a name its file is
        removed."""
        if place is None:
            self._published.pop(object_id, None)
            self.store.discard(object_id)
        elif object_id in self._published:
            self._published[object_id] = place

    def _note_draft_place(self, object_id: int, place: Place | None) -> None:
        if object_id in self._reserved:
            self._reserved[object_id] = place
        if place is None:
            self.drafts.detach(object_id)
        else:
            self.drafts.move(object_id, place)

    async def _look(self, _rank: int, object_id: int) -> bool:
        """Tells whether a draft of this rank is still one, and ends it first if it is finished.
        Does not look while all gates are closed: who asks then is waited for."""
        drafts = self.drafts
        for _ in range(_RETRIES):
            if object_id not in self._reserved:
                break
            if not Process(self._askers[object_id]).look():
                return True
            await asyncio.sleep(_RETRY_S)  # it was killed while a copy was made for it
        if self.gate.is_open and drafts.place_of(object_id) is not None:
            async with self.gate.passage():
                await drafts.look(object_id)
        return drafts.place_of(object_id) is not None

    def _tree_moved(self, _rank: int, *move: Any) -> None:
        self.drafts.move_tree(*move)
        for object_id, place in self._published.items():
            self._published[object_id] = place.after_move(*move)
        for object_id, reserved in self._reserved.items():
            if reserved is not None:
                self._reserved[object_id] = reserved.after_move(*move)
