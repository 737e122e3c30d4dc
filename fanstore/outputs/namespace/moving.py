"""Answers rename(2): of directories with all below them, while all ranks' operations are
stopped."""

from __future__ import annotations

import contextlib
import errno
from collections import defaultdict

from fanstore.outputs.model.entries import FREE, Place, Slot, failure, refuse
from fanstore.outputs.model.name_tables import Table
from fanstore.outputs.model.wire import Answer, Request
from fanstore.outputs.namespace.context import DONE, Context
from fanstore.outputs.namespace.walk import Resolved, end_of, name, together
from fanstore.outputs.ranks.asking import ask_all, ask_each

RENAME_NOREPLACE = 1


async def rename(context: Context, request: Request) -> Answer | None:
    """Answers RENAME: moves a name, of a directory all below it; None where one of the names has
    changed meanwhile."""
    replace = not request.flags & RENAME_NOREPLACE
    if request.flags & ~RENAME_NOREPLACE:
        raise failure(errno.EINVAL)
    async with context.gate.passage():
        old, new = await _names(context, request, replace)
        if old.path == new.path:
            return DONE
        if not old.is_directory:
            return DONE if await _rename(context, old, new, replace) else None
    async with context.gate.frozen():
        old, new = await _names(context, request, replace)
        if not old.is_directory:
            return None
        await _rename_tree(context, old, new)
        return DONE


async def _names(context: Context, request: Request, replace: bool) -> tuple[Resolved, Resolved]:
    old = await end_of(name(context, request))
    new = await end_of(name(context, request.about_other()))
    old, new = together(old, new)
    _check(old, new, not replace)
    return old, new


async def _rename(context: Context, old: Resolved, new: Resolved, replace: bool) -> bool:
    """Renames what is no directory; False where one of the names has changed meanwhile. Both are
    locked, so that nobody else moves or removes either; who looks in between sees one or both."""
    source, target, homes = old.place, new.place, context.homes
    token = homes.new_token()
    slots: dict[Place, Slot] = {}
    try:
        # In one order on all ranks: two renames never wait for one another.
        for place in sorted((source, target)):
            slots[place] = FREE  # its lock is to go, also where the answer is lost
            slots[place] = await homes.lock(place, token)
        slot, replaced = slots[source], slots[target]
        if not slot.knows(old.identity):
            return False
        if not replace and replaced != FREE:
            raise failure(errno.EEXIST, new.path)
        if replaced.published != (new.entry and new.entry.object_id):
            return False
        put = slot
        if slot.entry is None:  # it is being written: what is published there stays until its end
            put, replaced = Slot(replaced.entry, slot.draft), Slot(None, replaced.draft)
        alike = homes.rank(*source[:2]) == homes.rank(*target[:2])
        await homes.set_slot(target, put, source if alike else None)
        try:
            if not alike:
                await homes.set_slot(source, FREE)
        finally:
            await context.tell_place(replaced, None)
            if slot.entry is not None:
                context.observer.changed(target)
                context.observer.changed(source)
            await context.tell_place(slot, target)
        return True
    finally:
        for place in slots:
            with contextlib.suppress(OSError):  # lost, with its locks
                await homes.unlock(place, token)


async def _rename_tree(context: Context, old: Resolved, new: Resolved) -> None:
    """Moves a directory to a name that is free or that of an empty directory. Raises ENOTEMPTY."""
    homes, peers = context.homes, context.peers
    if not new.is_free and not await homes.is_empty(new.mount, new.path):
        raise failure(errno.ENOTEMPTY, new.path)
    # This waits for what must come before a name is put in a directory for the first time.
    token = homes.new_token()
    target = await homes.lock(new.place, token)
    await homes.unlock(new.place, token)
    source = await homes.slot(old.place)
    by_rank: defaultdict[int, dict[bytes, Table]] = defaultdict(dict)
    for part in await ask_all(peers, "home.tables", old.mount, old.path):
        for rest, table in part.items():
            directory = new.path + rest
            by_rank[homes.rank(new.mount, directory)][directory] = table
    # New names first: a rank that is lost meanwhile takes none with it but its own.
    await ask_all(peers, "home.drop_tables", new.mount, new.path)
    await ask_each(peers, by_rank, lambda rank: ("home.put_tables", new.mount, by_rank[rank]))
    await homes.set_slot(new.place, source)
    await homes.set_slot(old.place, FREE)
    await ask_all(peers, "home.drop_tables", old.mount, old.path)
    await ask_all(peers, "tree.moved", old.mount, old.path, new.path)
    await context.tell_place(Slot(None, target.draft), None)
    context.observer.moved(new.place)
    context.observer.changed(old.place)


def _check(old: Resolved, new: Resolved, noreplace: bool) -> None:
    """Raises what rename(2) of Linux would, in its order."""
    over = not new.is_free and old.path != new.path
    refuse(
        old.path,
        (old.special is not None, errno.EBUSY),
        (new.special is not None, errno.EEXIST if noreplace else errno.EBUSY),
        (old.is_long, errno.ENAMETOOLONG),
        (old.is_free, errno.ENOENT),
        (new.is_long, errno.ENAMETOOLONG),
        (noreplace and not new.is_free, errno.EEXIST),
        (not old.is_directory and (old.slash or new.slash), errno.ENOTDIR),
        (old.is_input or new.is_input, errno.EROFS),
        (new.path.startswith(old.path + b"/"), errno.EINVAL),
        (old.path.startswith(new.path + b"/"), errno.ENOTEMPTY),
        (over and old.is_directory and not new.is_directory, errno.ENOTDIR),
        (over and new.is_directory and not old.is_directory, errno.EISDIR),
    )
