"""Answers stat(2) and readdir(3)."""

from __future__ import annotations

import contextlib
import errno
from dataclasses import replace

from fanstore._native import lib
from fanstore.outputs.model.entries import Entry, Place, failure, owner_of
from fanstore.outputs.model.wire import Answer, Request, Where
from fanstore.outputs.namespace.context import Context
from fanstore.outputs.namespace.walk import Resolved


class Looking:
    """Looks names up for the clients of one rank."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def lookup(self, request: Request) -> Answer:
        """Answers LOOKUP: what a path stands for, with its attributes."""
        follow = not request.how & lib.FAN_OUTPUT_NOFOLLOW
        found = await self._context.walker.resolve(request.view, request.path, request.pid, follow)
        if found.elsewhere is not None or found.is_input:
            return self._context.elsewhere(found)
        seen = found.seen
        if seen is None:
            raise failure(errno.ENOENT, request.path)
        if seen.is_directory:
            seen = await self._with_times(found, seen)
        return Answer(Where.HERE, seen, seen.target if seen.is_link else found.path)

    async def _with_times(self, found: Resolved, entry: Entry) -> Entry:
        """Returns a directory's entry with the time at which its names changed."""
        try:
            changed_ns = await self._context.homes.changed_ns(found.mount, found.path)
        except OSError:  # the names in it are lost with their rank; the directory is not
            return entry
        attr = entry.attr
        times = changed_ns or attr.mtime_ns, max(attr.ctime_ns, changed_ns)
        return replace(entry, attr=attr._replace(mtime_ns=times[0], ctime_ns=times[1]))

    async def list(self, request: Request) -> Answer:
        """Answers LIST: what a directory holds, the asking process's own drafts included."""
        found = await self._context.walker.resolve(request.view, request.path, request.pid)
        if found.elsewhere is not None:
            return self._context.elsewhere(found)
        if not found.is_directory:
            raise failure(errno.ENOENT if found.is_free else errno.ENOTDIR, request.path)
        await self._finish_others(found, request.pid)
        names = dict(await self._context.homes.list(found.mount, found.path))
        for name, object_id in self._context.drafts.held(found.mount, found.path, request.pid):
            with contextlib.suppress(OSError):  # allowed, but not made yet
                names[name] = self._context.versions.entry(object_id)
        return Answer(Where.DONE, listing=tuple(names.items()))

    async def name(self, request: Request) -> Answer:
        """Answers NAME: the path of an object by now, for who has only its descriptor."""
        object_id = request.objects[0] if request.objects else 0
        peers = self._context.peers
        found: tuple[Place, bool] | None = None
        if owner_of(object_id) < peers.world_size:
            found = await peers.call(owner_of(object_id), "object.place", object_id)
        if found is None:
            raise failure(errno.ENOENT)
        place, published = found
        text = self._context.inputs[place.mount].prefixes[0] + b"/" + place.path
        own = self._context.drafts.find(place, request.pid) == object_id
        return Answer(Where.HERE if published or own else Where.OPEN_YET, text=text)

    async def _finish_others(self, found: Resolved, pid: int) -> None:
        drafts = self._context.drafts
        own = {object_id for _, object_id in drafts.held(found.mount, found.path, pid)}
        for object_id in drafts.within(found.mount, found.path):
            if object_id not in own:
                with contextlib.suppress(OSError):
                    await drafts.look(object_id)
