"""chmod, chown, utimens, and attributes that were changed through descriptors."""

from __future__ import annotations

import contextlib
import errno

from fanstore._native import lib
from fanstore.outputs.model.entries import Changes, Entry, Place, failure, owner_of
from fanstore.outputs.model.wire import Answer, Request
from fanstore.outputs.namespace.context import DONE, Context
from fanstore.outputs.namespace.publishing import Publishing
from fanstore.outputs.namespace.walk import Resolved

_FIELDS = {
    "mode": lib.FAN_OUTPUT_MODE,
    "uid": lib.FAN_OUTPUT_UID,
    "gid": lib.FAN_OUTPUT_GID,
    "atime_ns": lib.FAN_OUTPUT_ATIME,
    "mtime_ns": lib.FAN_OUTPUT_MTIME,
}


async def change(context: Context, request: Request) -> Answer | None:
    """Answers CHANGE: chmod, chown and utimens by path."""
    changes = Changes(
        **{name: getattr(request, name) for name, bit in _FIELDS.items() if request.change & bit}
    )
    found = await context.resolve(request, not request.how & lib.FAN_OUTPUT_NOFOLLOW)
    _check(found, changes, request)
    if found.own is not None:
        await context.store.change(found.own, changes)
        return DONE
    entry = found.entry
    assert entry is not None
    if not await _change(context, found.place, entry, changes):
        return None
    if entry.is_directory and changes.mtime_ns is not None:
        await context.homes.set_time(found.mount, found.path)
    context.observer.changed(found.place)
    return DONE


def _check(found: Resolved, changes: Changes, request: Request) -> None:
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


async def _change(context: Context, place: Place, entry: Entry, changes: Changes) -> bool:
    if not entry.is_file:
        return await context.homes.change(place, entry.object_id, changes) is not None
    try:
        attr = await context.store.change(entry.object_id, changes)
    except FileNotFoundError:
        return False
    return await context.homes.set_attr(place, entry.object_id, attr) is not None


async def refresh(context: Publishing, request: Request) -> Answer:
    """Answers REFRESH: attributes were changed through a descriptor. A draft's are read when it is
    finished; of another rank's object it was this node's copy that the kernel changed."""
    peers = context.peers
    for object_id in request.objects:
        owner = owner_of(object_id)
        with contextlib.suppress(FileNotFoundError):  # replaced meanwhile
            if owner == peers.rank:
                await context.refresh(object_id)
                continue
            changes = context.store.copy_changes(object_id)
            if changes is not None and owner < peers.world_size:
                await peers.call(owner, "object.refresh", object_id, changes)
    return DONE
