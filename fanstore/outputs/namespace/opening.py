"""Answers open(2) and truncate(2), which is an open for writing, a change and a close."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from dataclasses import dataclass

from fanstore.outputs.model.entries import Attr, Entry, Place, Slot, failure, owner_of, refuse
from fanstore.outputs.model.wire import Answer, Request, Where
from fanstore.outputs.namespace.context import DONE, Context
from fanstore.outputs.namespace.walk import Resolved, at_input, resolved


@dataclass(frozen=True)
class _Wish:
    """What an open wants, by its flags. size: the file gets it and is published, by nobody's
    descriptor. link: O_PATH and O_NOFOLLOW, the link itself will do."""

    create: bool = False
    exclusive: bool = False
    write: bool = False
    cut: bool = False
    size: int | None = None
    directory: bool = False
    follow: bool = True
    link: bool = False

    @property
    def changes(self) -> bool:
        """Whether there will be a new version."""
        return self.write or self.size is not None


def _wish_of(flags: int) -> _Wish:
    if flags & os.O_PATH:
        flags &= os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
    create, cut = bool(flags & os.O_CREAT), bool(flags & os.O_TRUNC)
    exclusive = create and bool(flags & os.O_EXCL)
    if create and flags & os.O_DIRECTORY:
        raise failure(errno.EINVAL)
    write = flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)
    return _Wish(
        create,
        exclusive,
        write,
        cut,
        size=0 if cut and not write else None,
        directory=bool(flags & os.O_DIRECTORY),
        follow=not flags & os.O_NOFOLLOW and not exclusive,
        link=bool(flags & os.O_PATH and flags & os.O_NOFOLLOW),
    )


async def truncate(context: Context, request: Request) -> Answer | None:
    """Answers TRUNCATE: gives a file a new size; None where its name has changed meanwhile."""
    if request.size < 0:
        raise failure(errno.EINVAL, request.path)
    return DONE if await _open(context, request, _Wish(size=request.size)) else None


async def open_file(context: Context, request: Request) -> Answer | None:
    """Answers OPEN: tells which real file to open, and how; None where a name has changed
    meanwhile."""
    return await _open(context, request, _wish_of(request.flags))


async def _open(context: Context, request: Request, wish: _Wish) -> Answer | None:
    """Answers an open; None where a name changed meanwhile. What takes long, copying and fetching,
    is done when the names are settled."""
    async with context.gate.passage():
        step = await _decide(context, request, wish)
    if isinstance(step, Slot):
        assert step.draft is not None
        return await _begin(context, step.draft, step.entry, request, wish)
    if isinstance(step, Entry):
        with contextlib.suppress(FileNotFoundError):  # it was replaced or removed meanwhile
            return Answer(Where.EXISTING, step, await context.store.local_path(step))
        return None
    return step


async def _begin(
    context: Context, object_id: int, entry: Entry | None, request: Request, wish: _Wish
) -> Answer | None:
    """Makes what is to be written, in place of `entry`, and has Drafts know it, or publishes it."""
    store, published = context.store, None
    try:
        if entry is not None and wish.size == 0:
            store.create(object_id, entry.attr.mode)
        elif entry is not None and not wish.cut:
            await store.copy(entry, object_id)
        if wish.size is not None:
            if wish.size:
                await store.truncate(object_id, wish.size)
            published = await context.publish(object_id, store.attr(object_id))
    except BaseException as error:
        await context.give_up(object_id)
        if isinstance(error, FileNotFoundError):
            return None  # replaced or removed while it was copied
        raise
    place, path = context.end_reserve(object_id), store.path(object_id)
    if wish.size is not None:
        return Answer(Where.EXISTING, published, path) if published else None
    if place is None:
        store.discard(object_id)
        return None
    context.drafts.begin(place, object_id, request.pid)
    if entry is not None and not wish.cut:
        return Answer(Where.EXISTING, _now(context, object_id), path)
    mode = stat.S_IFREG | request.mode & 0o7777
    attr = entry.attr if entry else Attr(mode, request.peer_uid, os.getgid(), 0, 0, 0, 0, 0)
    return Answer(Where.CREATE, context.store.entry(object_id, attr), path, entry is None)


async def _decide(context: Context, request: Request, wish: _Wish) -> Answer | Entry | Slot | None:
    """Returns the answer, or what is to be done for it: an entry is to be read; a slot
    is reserved, and its draft is to be made."""
    found = await resolved(context, request, wish.follow, wish.create)
    if found.is_free:
        return await _open_free(context, found, request, wish)
    path, entry = request.path, found.entry
    is_link, is_directory = found.is_link and not wish.follow, found.is_directory
    refuse(
        path,
        (wish.exclusive, errno.EEXIST),
        (is_link and wish.directory, errno.ENOTDIR),
        (is_link and not wish.link, errno.ELOOP),
        (is_directory and (wish.create or wish.changes), errno.EISDIR),
        (wish.directory and not is_directory, errno.ENOTDIR),
        (found.is_input and wish.changes, errno.EROFS),
    )
    if found.is_input:
        raise at_input(context, found)
    if entry is not None and is_link:
        return Answer(Where.HERE, entry, entry.target)
    if is_directory:
        return Answer(Where.DIRECTORY, entry, found.path)
    if found.own is not None:
        return await _open_own(context, found.own, request, wish)
    assert entry is not None
    if not wish.changes:
        return entry
    refuse(path, (not may_write(entry.attr, request.peer_uid), errno.EACCES))
    return await _reserve(context, found.place, request, wish)


async def _open_free(
    context: Context, found: Resolved, request: Request, wish: _Wish
) -> Answer | Entry | Slot | None:
    if not wish.create:
        raise failure(errno.ENOENT, request.path)
    if wish.write:
        return await _reserve(context, found.place, request, wish)
    try:
        return await context.make(found.place, request.mode & ~umask_of(request.pid))
    except FileExistsError:
        if wish.exclusive:
            raise
    slot = await context.homes.slot(found.place)  # somebody else made it, or is writing it
    if slot.entry is None and slot.draft is not None:
        return await _busy(context, slot.draft, request, wish)
    return None


async def _open_own(context: Context, own: int, request: Request, wish: _Wish) -> Answer | None:
    if wish.write and not await context.drafts.join(own, request.pid):
        await context.drafts.look(own)  # its end, which is under way
        return None
    if wish.size is not None:
        await context.store.truncate(own, wish.size)
    return _joined(context, own, wish)


async def _reserve(
    context: Context, name: Place, request: Request, wish: _Wish
) -> Answer | Slot | None:
    object_id = context.store.new_id()
    result = await context.reserve(object_id, name, request.pid, wish.create, wish.exclusive)
    if result.draft == object_id:
        return result
    return None if result.draft is None else await _busy(context, result.draft, request, wish)


async def _busy(context: Context, draft: int, request: Request, wish: _Wish) -> Answer | None:
    """Answers where somebody else is writing the file: on this node one may join before there is
    anything in it. Raises ETXTBSY."""
    if owner_of(draft) == context.peers.rank:
        with contextlib.suppress(OSError):
            await context.drafts.look(draft)
        if wish.write and await context.drafts.join(draft, request.pid):
            return _joined(context, draft, wish)
    if await context.peers.call(owner_of(draft), "draft.look", draft):
        raise failure(errno.ETXTBSY, request.path)
    return None


def _joined(context: Context, draft: int, wish: _Wish) -> Answer:
    where = Where.CUT if wish.cut else Where.EXISTING
    return Answer(where, _now(context, draft), context.store.path(draft))


def _now(context: Context, object_id: int) -> Entry:
    """Returns the entry of an object that is being written, as it is by now."""
    try:
        return context.store.entry(object_id)
    except OSError:
        return context.store.entry(object_id, Attr(stat.S_IFREG, 0, 0, 0, 0, 0, 0, 0))


def may_write(attr: Attr, uid: int) -> bool:
    """Tells whether a user may open a file for writing, by its mode; groups are not looked at."""
    return uid == 0 or bool(attr.mode & (stat.S_IWUSR if attr.uid == uid else stat.S_IWOTH))


def umask_of(pid: int) -> int:
    """Returns a process's umask; the usual 022 when the process is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as stream:
        found = re.search(rb"^Umask:\s*([0-7]+)", stream.read(), re.MULTILINE)
        if found is not None:
            return int(found[1], 8)
    return 0o022
