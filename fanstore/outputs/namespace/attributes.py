"""chmod, chown, utimens, and attributes that were changed through descriptors."""

from __future__ import annotations

import contextlib
import errno

from fanstore._native import lib
from fanstore.outputs.model.entries import Changes, Entry, failure, owner_of
from fanstore.outputs.model.wire import Answer, Request, Where
from fanstore.outputs.namespace.context import TRIES, Context
from fanstore.outputs.namespace.publishing import Publishing
from fanstore.outputs.namespace.walk import Resolved

_FIELDS = {
    "mode": lib.FAN_OUTPUT_MODE,
    "uid": lib.FAN_OUTPUT_UID,
    "gid": lib.FAN_OUTPUT_GID,
    "atime_ns": lib.FAN_OUTPUT_ATIME,
    "mtime_ns": lib.FAN_OUTPUT_MTIME,
}


class Attributes:
    """Changes attributes for the clients of one rank."""

    def __init__(self, context: Context, publishing: Publishing) -> None:
        self._context = context
        self._publishing = publishing
        context.peers.serve("object.refresh", self._refresh)

    async def change(self, request: Request) -> Answer:
        """Answers CHANGE: chmod, chown and utimens by path."""
        follow = not request.how & lib.FAN_OUTPUT_NOFOLLOW
        changes = Changes(
            **{
                name: getattr(request, name)
                for name, bit in _FIELDS.items()
                if request.change & bit
            }
        )
        for _ in range(TRIES):
            found = await self._context.walker.resolve(
                request.view, request.path, request.pid, follow
            )
            if found.elsewhere is not None:
                return self._context.elsewhere(found)
            self._check(found, changes, request)
            if await self._change(found, changes):
                return Answer(Where.DONE)
        raise failure(errno.EIO, request.path)

    def _check(self, found: Resolved, changes: Changes, request: Request) -> None:
        if found.is_free:
            raise failure(errno.ENOENT, request.path)
        if found.is_input:
            raise failure(errno.EROFS, request.path)
        if found.is_link and changes.mode is not None:
            raise failure(errno.EOPNOTSUPP, request.path)
        entry = found.entry
        if entry is None or entry.is_file:
            return  # the file says whether its owner may be changed
        if request.peer_uid != 0 and changes.uid not in (None, entry.attr.uid):
            raise failure(errno.EPERM, request.path)

    async def _change(self, found: Resolved, changes: Changes) -> bool:
        context = self._context
        if found.own is not None:
            await context.store.change(found.own, changes)
            return True
        entry = found.entry
        assert entry is not None
        if entry.is_file:
            done = await self._change_file(found, entry, changes)
        else:
            done = await context.homes.change(found.place, entry.object_id, changes) is not None
        if done and entry.is_directory and changes.mtime_ns is not None:
            await context.homes.set_time(found.mount, found.path)
        if done:
            context.observer.changed(found.place)
        return done

    async def _change_file(self, found: Resolved, entry: Entry, changes: Changes) -> bool:
        try:
            attr = await self._context.store.change(entry.object_id, changes)
        except FileNotFoundError:
            return False
        return await self._context.homes.set_attr(found.place, entry.object_id, attr) is not None

    async def refresh(self, request: Request) -> Answer:
        """Answers REFRESH: attributes were changed through a descriptor. A draft's are read when it
        is finished; of another rank's object it was this node's copy that the kernel changed."""
        peers = self._context.peers
        for object_id in request.objects:
            owner = owner_of(object_id)
            with contextlib.suppress(FileNotFoundError):  # replaced meanwhile
                if owner == peers.rank:
                    await self._refresh(peers.rank, object_id, None)
                    continue
                changes = self._context.store.copy_changes(object_id)
                if changes is not None and owner < peers.world_size:
                    await peers.call(owner, "object.refresh", object_id, changes)
        return Answer(Where.DONE)

    async def _refresh(self, _rank: int, object_id: int, changes: Changes | None) -> None:
        """Publishes the attributes that an object of this rank has now, after `changes` that
        another rank's copy had."""
        place = self._publishing.place_of(object_id)
        if place is None:
            return
        store = self._context.store
        attr = store.attr(object_id) if changes is None else await store.change(object_id, changes)
        if await self._context.homes.set_attr(place, object_id, attr):
            self._context.observer.changed(place)
