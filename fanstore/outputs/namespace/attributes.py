"""Answers what asks for names and their attributes, and what changes attributes: stat, readdir;
chmod, chown, utimens."""

from __future__ import annotations

import contextlib
import errno
from dataclasses import fields, replace

from fanstore._native import lib
from fanstore.outputs.model.entries import Attr, Changes, Entry, Place, failure, owner_of, refuse
from fanstore.outputs.model.wire import Answer, Request, Where
from fanstore.outputs.namespace.context import DONE, Context
from fanstore.outputs.namespace.walk import Resolved, at_input, check_directory, resolve

# What CHANGE may change, and the bit that says so: FAN_OUTPUT_ATIME of atime_ns.
_BITS = {
    each.name: getattr(lib, f"FAN_OUTPUT_{each.name.removesuffix('_ns').upper()}")
    for each in fields(Changes)
}


async def lookup(context: Context, request: Request) -> Answer:
    """Answers LOOKUP: what a path stands for, with its attributes."""
    found = await resolve(context, request, not request.how & lib.FAN_OUTPUT_NOFOLLOW)
    if found.is_input:
        raise at_input(context, found)
    seen = found.seen
    if seen is None:
        raise failure(errno.ENOENT, request.path)
    if seen.is_directory:
        seen = await _with_times(context, found, seen)
    return Answer(Where.HERE, seen, seen.target if seen.is_link else found.path)


async def _with_times(context: Context, found: Resolved, entry: Entry) -> Entry:
    """Returns a directory's entry with the time at which its names changed."""
    try:
        changed_ns = await context.homes.changed_ns(found.mount, found.path)
    except OSError:  # the names in it are lost with their rank; the directory is not
        return entry
    attr = entry.attr
    times = changed_ns or attr.mtime_ns, max(attr.ctime_ns, changed_ns)
    return replace(entry, attr=attr._replace(mtime_ns=times[0], ctime_ns=times[1]))


async def listing(context: Context, request: Request) -> Answer:
    """Answers LIST: what a directory holds, the asking process's own drafts included."""
    found = await resolve(context, request)
    check_directory(found)
    drafts, key = context.drafts, (found.mount, found.path)
    for draft in drafts.within(*key):
        if request.pid not in draft.holders:
            await drafts.look(draft.object_id)
    names = dict(await context.homes.list(*key))
    for draft in drafts.within(*key):
        if request.pid in draft.holders:
            with contextlib.suppress(OSError):  # allowed, but not made yet
                names[draft.place.name] = context.store.entry(draft.object_id)
    return Answer(Where.DONE, listing=tuple(names.items()))


async def name_of(context: Context, request: Request) -> Answer:
    """Answers NAME: the path of an object by now, for who has only its descriptor."""
    object_id = request.objects[0] if request.objects else 0
    owner = owner_of(object_id)
    found: tuple[Place, bool] | None = None
    if owner < context.peers.world_size:
        found = await context.peers.call(owner, "object.place", object_id)
    if found is None:
        raise failure(errno.ENOENT)
    place, published = found
    text = context.inputs[place.mount].prefixes[0] + b"/" + place.path
    own = context.drafts.find(place, request.pid) == object_id
    return Answer(Where.HERE if published or own else Where.OPEN_YET, text=text)


async def change(context: Context, request: Request) -> Answer | None:
    """Answers CHANGE: chmod, chown and utimens by path."""
    changes = Changes(
        **{name: getattr(request, name) for name, bit in _BITS.items() if request.change & bit}
    )
    found = await resolve(context, request, not request.how & lib.FAN_OUTPUT_NOFOLLOW)
    entry = found.entry
    # Whether its owner may be changed says the file.
    is_others = (
        entry is not None
        and not entry.is_file
        and request.peer_uid != 0
        and changes.uid not in (None, entry.attr.uid)
    )
    refuse(
        request.path,
        (found.is_free, errno.ENOENT),
        (found.is_input, errno.EROFS),
        (found.is_link and changes.mode is not None, errno.EOPNOTSUPP),
        (is_others, errno.EPERM),
    )
    if found.own is not None:
        await context.store.change(found.own, changes)
        return DONE
    assert entry is not None
    made: Changes | Attr = changes
    if entry.is_file:
        try:
            made = await context.store.change(entry.object_id, changes)
        except FileNotFoundError:
            return None
    if await context.homes.change(found.place, entry.object_id, made) is None:
        return None
    if entry.is_directory and changes.mtime_ns is not None:
        await context.homes.set_time(found.mount, found.path)
    context.observer.changed(found.place)
    return DONE


async def refresh(context: Context, request: Request) -> Answer:
    """Answers REFRESH: attributes were changed through a descriptor. A draft's are read when it is
    finished; of another rank's object it was this node's copy that the kernel changed."""
    peers = context.peers
    for object_id in request.objects:
        owner = owner_of(object_id)
        with contextlib.suppress(FileNotFoundError):  # replaced meanwhile
            mine = owner == peers.rank
            changes = None if mine else context.store.copy_changes(object_id)
            if mine or (changes is not None and owner < peers.world_size):
                await peers.call(owner, "object.refresh", object_id, changes)
    return DONE
