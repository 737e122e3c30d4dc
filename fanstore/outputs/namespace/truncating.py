"""Answers truncate(2)."""

from __future__ import annotations

import errno

from fanstore.outputs.model.entries import Entry, failure, owner_of
from fanstore.outputs.model.wire import Answer, Request, Where
from fanstore.outputs.namespace.context import TRIES, Context
from fanstore.outputs.namespace.publishing import Publishing
from fanstore.outputs.namespace.walk import Resolved


class Truncating:
    """Truncates by name: that makes a new version of the file, like an open, a change and a
    close."""

    def __init__(self, context: Context, publishing: Publishing) -> None:
        self._context = context
        self._publishing = publishing

    async def truncate(self, request: Request) -> Answer:
        """Answers TRUNCATE."""
        if request.size < 0:
            raise failure(errno.EINVAL, request.path)
        for _ in range(TRIES):
            async with self._context.gate.passage():
                found = await self._context.walker.resolve(request.view, request.path, request.pid)
                if found.elsewhere is not None:
                    return self._context.elsewhere(found)
                _check(found, request)
                if await self.cut(found, request.size, request.pid):
                    return Answer(Where.DONE)
        raise failure(errno.EIO, request.path)

    async def cut(self, found: Resolved, size: int, pid: int) -> bool:
        """Gives a file a new size; False when its name stands for something else by now."""
        context = self._context
        if found.own is not None:
            await context.store.truncate(found.own, size)
            return True
        object_id = context.store.new_id()
        result = await self._publishing.reserve(object_id, found.place, pid, False, False)
        if not result.taken:
            if result.draft is not None and await context.peers.call(
                owner_of(result.draft), "draft.look", result.draft
            ):
                raise failure(errno.ETXTBSY, found.path)
            return False
        assert result.entry is not None
        done = False
        try:
            await self._make(result.entry, object_id, size)
            attr = context.store.attr(object_id)
            done = await self._publishing.publish_reserved(object_id, attr)
        except FileNotFoundError:
            pass  # replaced or removed while it was copied
        finally:
            place = self._publishing.end_reserve(object_id)
            context.versions.forget(object_id)
            if not done:
                await self._publishing.release_at(place, object_id)
                context.store.discard(object_id)
        return done

    async def _make(self, entry: Entry, object_id: int, size: int) -> None:
        store = self._context.store
        if size == 0:
            store.create(object_id, entry.attr.mode)
            return
        await store.copy(entry, object_id)
        await store.truncate(object_id, size)


def _check(found: Resolved, request: Request) -> None:
    if found.is_free:
        raise failure(errno.ENOENT, request.path)
    if found.is_directory:
        raise failure(errno.EISDIR, request.path)
    if found.is_input:
        raise failure(errno.EROFS, request.path)
