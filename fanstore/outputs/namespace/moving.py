"""Answers rename(2): of directories with all below them, while all ranks' operations are
stopped."""

from __future__ import annotations

import errno
import itertools

from fanstore.outputs.model.entries import FREE, Place, Slot, failure, refuse
from fanstore.outputs.model.name_tables import Table, put_over
from fanstore.outputs.model.wire import Answer, Request
from fanstore.outputs.namespace.context import DONE, Context
from fanstore.outputs.namespace.naming import identity
from fanstore.outputs.namespace.walk import Resolved, end_of, name, together
from fanstore.outputs.ranks.asking import ask_all, ask_each

RENAME_NOREPLACE = 1
_tokens = itertools.count(1)


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
    source, target, homes = old.place, new.place, context.homes
    moved = identity(old)
    before = new.entry.object_id if new.entry is not None else None
    if homes.rank(source.mount, source.directory) != homes.rank(target.mount, target.directory):
        return await _rename_across(context, source, target, moved, before, replace)
    result = await homes.move(source, target, moved, before, replace)
    if result is not None:
        await _after(context, source, target, *result)
    return result is not None


async def _rename_across(
    context: Context, source: Place, target: Place, moved: int, before: int | None, replace: bool
) -> bool:
    """Renames between two home ranks. Both names are locked, so that nobody else moves or removes
    either, and who looks in between sees one of them or both."""
    homes, peers = context.homes, context.peers
    token = next(_tokens) * peers.world_size + peers.rank
    slots: dict[Place, Slot] = {}
    try:
        # In one order on all ranks: two renames never wait for one another.
        for place in sorted((source, target), key=lambda p: (p.mount, p.directory, p.name)):
            slots[place] = await homes.lock(place, token)
        slot = slots[source]
        put = put_over(target, slots[target], slot, before, replace) if slot.knows(moved) else None
        if put is None:
            return False
        await homes.set_slot(target, put[0])
        try:
            await homes.set_slot(source, FREE)
        finally:
            await _after(context, source, target, slot, put[1])
        return True
    finally:
        for place in slots:
            rank = homes.rank(place.mount, place.directory)
            peers.tell(rank, "home.unlock", place, token)


async def _after(
    context: Context, source: Place, target: Place, slot: Slot, replaced: Slot
) -> None:
    await context.gone(replaced)
    if slot.entry is not None:
        context.observer.changed(target)
        context.observer.changed(source)
    await context.moved(slot, target)


async def _rename_tree(context: Context, old: Resolved, new: Resolved) -> None:
    """Moves a directory to a name that is free or that of an empty directory. Raises ENOTEMPTY."""
    homes, peers = context.homes, context.peers
    if not new.is_free and not await homes.is_empty(new.mount, new.path):
        raise failure(errno.ENOTEMPTY, new.path)
    # This waits for what must come before a name is put in a directory for the first time.
    target = await homes.lock(new.place, -1)
    await homes.unlock(new.place, -1)
    source = await homes.slot(old.place)
    by_rank: dict[int, dict[bytes, Table]] = {}
    for part in await ask_all(peers, "home.tables", old.mount, old.path):
        for rest, table in part.items():
            directory = new.path + rest
            by_rank.setdefault(homes.rank(new.mount, directory), {})[directory] = table
    # New names first: a rank that is lost meanwhile takes none with it but its own.
    await ask_all(peers, "home.drop_tables", new.mount, new.path)
    await ask_each(peers, by_rank, lambda rank: ("home.put_tables", new.mount, by_rank[rank]))
    await homes.set_slot(new.place, source)
    await homes.set_slot(old.place, FREE)
    await ask_all(peers, "home.drop_tables", old.mount, old.path)
    await ask_all(peers, "tree.moved", old.mount, old.path, new.path)
    await context.gone(Slot(None, target.draft))
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
