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


async def lookup(context: Context, request: Request) -> Answer:
    """Answers LOOKUP: what a path stands for, with its attributes."""
    found = await context.resolve(request, not request.how & lib.FAN_OUTPUT_NOFOLLOW)
    if found.is_input:
        raise context.at_input(found)
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
    found = await context.resolve(request)
    if not found.is_directory:
        raise failure(errno.ENOENT if found.is_free else errno.ENOTDIR, request.path)
    drafts, key = context.drafts, (found.mount, found.path)
    own = {object_id for _, object_id in drafts.held(*key, request.pid)}
    for object_id in drafts.within(*key):
        if object_id not in own:
            with contextlib.suppress(OSError):
                await drafts.look(object_id)
    names = dict(await context.homes.list(*key))
    for name, object_id in drafts.held(*key, request.pid):
        with contextlib.suppress(OSError):  # allowed, but not made yet
            names[name] = context.versions.entry(object_id)
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
