"""Publishes drafts, and keeps where the objects of this rank are published."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable

from fanstore.outputs.drafts.watch import has_ended
from fanstore.outputs.model.entries import Attr, Entry, Place, failure
from fanstore.outputs.model.name_tables import Reservation
from fanstore.outputs.model.partial import partial_names
from fanstore.outputs.namespace.context import Context

_RETRY_S = 0.005
_RETRIES = 400


class Publishing:
    """The Publisher of Drafts (model/interfaces.py), and the places of this rank's objects."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._reserved: dict[int, Place | None] = {}  # allowed, but not known to Drafts yet
        self._askers: dict[int, int] = {}  # the processes that want those
        self._published: dict[int, Place] = {}
        peers = context.peers
        peers.serve("draft.moved", self._draft_moved)
        peers.serve("draft.unnamed", self._draft_unnamed)
        peers.serve("draft.look", self._look)
        peers.serve("object.moved", lambda _, *args: self.moved(*args))
        peers.serve("object.place", lambda _, object_id: self._place(object_id))
        peers.serve("object.unnamed", lambda _, object_id: self.unnamed(object_id))
        peers.serve("tree.moved", self._tree_moved)

    async def reserve(
        self, object_id: int, place: Place, pid: int, create: bool, exclusive: bool
    ) -> Reservation:
        """Reserves a name for an object that a process wants to write. If it is taken, the caller
        must call end_reserve when Drafts is to know it, or it is published or given up: until then
        it may be renamed."""
        self._reserved[object_id] = place
        self._askers[object_id] = pid
        result = None
        try:
            result = await self._context.homes.reserve(place, object_id, create, exclusive)
            if result.taken and result.entry is not None:
                self._context.versions.follow(object_id, result.entry)
            return result
        finally:
            if result is None or not result.taken:
                self.end_reserve(object_id)

    def end_reserve(self, object_id: int) -> Place | None:
        """Returns the place that is reserved for an object by now, None if its name is gone; the
        object may not be renamed by way of Publishing any more."""
        del self._askers[object_id]
        return self._reserved.pop(object_id)

    def note(self, place: Place, entry: Entry) -> None:
        """Notes that a file of this rank has got a name."""
        self._published[entry.object_id] = place
        self._context.observer.published(place, entry)

    async def make(self, place: Place, mode: int) -> Entry:
        """Publishes an empty file, which nobody is writing, under a name that is free. Raises
        EEXIST."""
        store = self._context.store
        object_id = store.new_id()
        entry = Entry(object_id, store.create(object_id, mode))
        try:
            await self._context.homes.insert(place, entry)
        except BaseException:
            store.discard(object_id)
            raise
        self.note(place, entry)
        return entry

    def place_of(self, object_id: int) -> Place | None:
        """Returns where an object of this rank is published, or None."""
        return self._published.get(object_id)

    def _place(self, object_id: int) -> tuple[Place, bool] | None:
        """Returns the place of an object of this rank, and whether it is published; None if it has
        no name."""
        published = self._published.get(object_id)
        if published is not None:
            return published, True
        place = self._context.drafts.place_of(object_id)
        return None if place is None else (place, False)

    async def publish(self, object_id: int, attr: Attr) -> None:
        """Does what Publisher.publish says."""
        entry = self._context.versions.entry(object_id, attr)
        try:
            if await self._publish_draft(entry):
                return
        finally:
            self._context.versions.forget(object_id)
        self._context.store.discard(object_id)

    async def _publish_draft(self, entry: Entry) -> bool:
        async with self._context.gate.passage(awaited=True):
            return await self._publish_named(entry, self._context.drafts.place_of)

    async def publish_reserved(self, object_id: int, attr: Attr) -> bool:
        """Publishes an object whose name is reserved and which Drafts does not know; False when the
        name is gone."""
        entry = self._context.versions.entry(object_id, attr)
        async with self._context.gate.passage():
            return await self._publish_named(entry, self._reserved.get)

    async def _publish_named(self, entry: Entry, place_of: Callable[[int], Place | None]) -> bool:
        """Publishes an entry where `place_of` its object says; False when the name is gone."""
        for _ in range(_RETRIES):
            place = place_of(entry.object_id)
            if place is None:
                return False
            if await self._publish_at(place, entry):
                return True
            # Renamed or removed a moment ago: whoever did it is about to tell.
            await asyncio.sleep(_RETRY_S)
        return False

    async def _publish_at(self, place: Place, entry: Entry) -> bool:
        context = self._context
        try:
            replaced = await context.homes.publish(place, entry)
        except OSError:
            context.observer.stranded(place, entry)
            with contextlib.suppress(OSError):
                await context.homes.release(place, entry.object_id)
            raise
        if replaced is None:
            return False
        await context.gone(replaced)
        self.note(place, entry)
        return True

    async def publish_partial(self, object_id: int, attr: Attr) -> None:
        """Does what Publisher.publish_partial says."""
        self._context.versions.forget(object_id)
        async with self._context.gate.passage(awaited=True):
            place = self._context.drafts.place_of(object_id)
            if place is None:
                self._context.store.discard(object_id)
                return
            await self._name_partial(place, Entry(object_id, attr))
            # It may have been renamed meanwhile, by what its killed writer had asked for.
            await self.release_at(self._context.drafts.place_of(object_id), object_id)

    async def _name_partial(self, place: Place, entry: Entry) -> None:
        """Publishes an entry under the first free name of partial_names."""
        for name in partial_names(place.name):
            partial = Place(place.mount, place.directory, name)
            if self._context.inputs[place.mount].kind(partial.path) != "missing":
                continue
            try:
                await self._context.homes.insert(partial, entry)
            except FileExistsError:
                continue
            except OSError:
                self._context.observer.stranded(partial, entry)
                return
            self.note(partial, entry)
            return
        raise failure(errno.EEXIST, place.path)

    async def release(self, object_id: int) -> None:
        """Does what Publisher.release says."""
        async with self._context.gate.passage(awaited=True):
            await self.release_at(self._context.drafts.place_of(object_id), object_id)

    async def release_at(self, place: Place | None, object_id: int) -> None:
        """Gives a reserved name back. A home rank that is lost has forgotten it anyway."""
        self._context.versions.forget(object_id)
        if place is not None:
            with contextlib.suppress(OSError):
                await self._context.homes.release(place, object_id)

    def moved(self, object_id: int, place: Place) -> None:
        """Notes the new name of an object of this rank, if it is published."""
        if object_id in self._published:
            self._published[object_id] = place

    def unnamed(self, object_id: int) -> None:
        """Notes that an object of this rank has no name any more."""
        self._published.pop(object_id, None)

    # What other ranks tell.

    def _draft_moved(self, _rank: int, object_id: int, place: Place) -> None:
        if object_id in self._reserved:
            self._reserved[object_id] = place
        self._context.drafts.move(object_id, place)

    def _draft_unnamed(self, _rank: int, object_id: int) -> None:
        if object_id in self._reserved:
            self._reserved[object_id] = None
        self._context.drafts.detach(object_id)

    async def _look(self, _rank: int, object_id: int) -> bool:
        """Tells whether a draft of this rank is still one, and ends it first if it is finished.
        Does not look while all gates are closed: who asks then is waited for."""
        drafts = self._context.drafts
        for _ in range(_RETRIES):
            if object_id not in self._reserved:
                break
            if not has_ended(self._askers[object_id]):
                return True
            await asyncio.sleep(_RETRY_S)  # it was killed while a copy was made for it
        if self._context.gate.is_open and drafts.place_of(object_id) is not None:
            async with self._context.gate.passage():
                await drafts.look(object_id)
        return drafts.place_of(object_id) is not None

    def _tree_moved(self, _rank: int, mount: int, old: bytes, new: bytes) -> None:
        self._context.drafts.move_tree(mount, old, new)
        for object_id, place in self._published.items():
            self._published[object_id] = _within(place, mount, old, new)
        for object_id, reserved in self._reserved.items():
            if reserved is not None:
                self._reserved[object_id] = _within(reserved, mount, old, new)


def _within(place: Place, mount: int, old: bytes, new: bytes) -> Place:
    directory = place.directory
    if place.mount != mount or not (directory == old or directory.startswith(old + b"/")):
        return place
    return Place(mount, new + directory[len(old) :], place.name)
