"""Answers rename(2) for what is no directory; trees.py has the directories."""

from __future__ import annotations

import contextlib
import errno
import itertools

from fanstore.outputs.model.entries import Place, Slot, failure
from fanstore.outputs.model.name_tables import Removed
from fanstore.outputs.model.wire import Answer, Request, Where
from fanstore.outputs.namespace.context import TRIES, Context
from fanstore.outputs.namespace.naming import identity
from fanstore.outputs.namespace.trees import Trees
from fanstore.outputs.namespace.walk import NAME_MAX, Resolved

RENAME_NOREPLACE = 1


class Moving:
    """Renames for the clients of one rank."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._trees = Trees(context)
        self._tokens = itertools.count(1)

    async def rename(self, request: Request) -> Answer:
        """Answers RENAME."""
        if request.flags & ~RENAME_NOREPLACE:
            raise failure(errno.EINVAL)
        for _ in range(TRIES):
            async with self._context.gate.passage():
                if await self._try_at_once(request):
                    return Answer(Where.DONE)
                answer, alone = await self._try(request, alone=False)
            if alone:
                async with self._context.gate.frozen():
                    answer, alone = await self._try(request, alone=True)
            if answer is not None:
                return answer
        raise failure(errno.EIO, request.path)

    async def _try_at_once(self, request: Request) -> bool:
        """Renames what is plain, over what is plain or nothing, with one question to the home of
        both names."""
        walker = self._context.walker
        old = walker.hoped(request.view, request.path)
        new = walker.hoped(request.other_view, request.other)
        if old is None or new is None or old == new or old.mount != new.mount:
            return False
        replace = not request.flags & RENAME_NOREPLACE
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            return self._is_one_home(old, new) and await self._move(old, new, None, None, replace)
        return False

    def _is_one_home(self, old: Place, new: Place) -> bool:
        homes = self._context.homes
        return homes.rank(old.mount, old.directory) == homes.rank(new.mount, new.directory)

    async def _move(
        self, old: Place, new: Place, moved: int | None, before: int | None, replace: bool
    ) -> bool:
        result = await self._context.homes.move(old, new, moved, before, replace)
        if result is not None:
            await self._after(old, new, *result)
        return result is not None

    async def _try(self, request: Request, alone: bool) -> tuple[Answer | None, bool]:
        """Returns the answer, or None if a name changed meanwhile; and whether it can only be done
        with all gates closed."""
        walker = self._context.walker
        old = await walker.name(request.view, request.path, request.pid, long=True)
        new = await walker.name(request.other_view, request.other, request.pid, long=True)
        if old.elsewhere is not None and new.elsewhere is not None:
            return Answer(Where.ELSEWHERE, text=old.elsewhere + b"\0" + new.elsewhere), False
        noreplace = bool(request.flags & RENAME_NOREPLACE)
        check(old, new, noreplace)
        if (old.mount, old.path) == (new.mount, new.path):
            return Answer(Where.DONE), False
        if old.is_directory and not alone:
            return None, True
        if old.is_directory:
            await self._trees.rename(old, new)
        elif not await self._rename(old, new, not noreplace):
            return None, False
        return Answer(Where.DONE), False

    async def _rename(self, old: Resolved, new: Resolved, replace: bool) -> bool:
        source, target = old.place, new.place
        moved = identity(old)
        before = new.entry.object_id if new.entry is not None else None
        if self._is_one_home(source, target):
            return await self._move(source, target, moved, before, replace)
        return await self._rename_across(source, target, moved, before, replace)

    async def _rename_across(
        self, source: Place, target: Place, moved: int, before: int | None, replace: bool
    ) -> bool:
        """Renames between two home ranks. Both names are locked, so that nobody else moves or
        removes either, and who looks in between sees one of them or both."""
        homes = self._context.homes
        token = next(self._tokens) * self._context.peers.world_size + self._context.peers.rank
        held: list[Place] = []
        try:
            # In one order on all ranks: two renames never wait for one another.
            slots: dict[Place, Slot] = {}
            for place in sorted((source, target), key=lambda p: (p.mount, p.directory, p.name)):
                slots[place] = await homes.lock(place, token)
                held.append(place)
            slot = slots[source]
            if not slot.knows(moved):
                return False
            replaced = await homes.put(target, slot, before, replace, token)
            if replaced is None:
                return False
            try:
                await homes.remove(source, moved, token)
            finally:
                await self._after(source, target, slot, replaced)
            return True
        finally:
            for place in held:
                self._unlock(place, token)

    def _unlock(self, place: Place, token: int) -> None:
        rank = self._context.homes.rank(place.mount, place.directory)
        self._context.peers.tell(rank, "home.unlock", place, token)

    async def _after(self, source: Place, target: Place, slot: Slot, replaced: Removed) -> None:
        context = self._context
        await context.gone(replaced)
        if slot.entry is not None:
            context.observer.changed(target)
            context.observer.changed(source)
        await context.moved(slot, target)


def check(old: Resolved, new: Resolved, noreplace: bool) -> None:
    """Raises what rename(2) of Linux would, in its order."""
    if (old.elsewhere is None) != (new.elsewhere is None) or old.mount != new.mount:
        raise failure(errno.EXDEV, old.path)
    if old.special is not None:
        raise failure(errno.EBUSY, old.path)
    if new.special is not None:
        raise failure(errno.EEXIST if noreplace else errno.EBUSY, new.path)
    _check_length(old)
    if old.is_free:
        raise failure(errno.ENOENT, old.path)
    _check_length(new)
    if noreplace and not new.is_free:
        raise failure(errno.EEXIST, new.path)
    if not old.is_directory and (old.slash or new.slash):
        raise failure(errno.ENOTDIR, old.path)
    if old.is_input or new.is_input:
        raise failure(errno.EROFS, old.path)
    if new.path.startswith(old.path + b"/"):
        raise failure(errno.EINVAL, new.path)
    if old.path.startswith(new.path + b"/"):
        raise failure(errno.ENOTEMPTY, new.path)
    if not new.is_free and old.path != new.path:
        if old.is_directory and not new.is_directory:
            raise failure(errno.ENOTDIR, new.path)
        if new.is_directory and not old.is_directory:
            raise failure(errno.EISDIR, new.path)


def _check_length(found: Resolved) -> None:
    if len(found.place.name) > NAME_MAX:
        raise failure(errno.ENAMETOOLONG, found.path)
