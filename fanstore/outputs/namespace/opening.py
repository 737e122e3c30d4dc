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
from fanstore.outputs.namespace.walk import at_input, resolve


async def truncate(context: Context, request: Request) -> Answer | None:
    """Answers TRUNCATE: gives a file a new size; None where its name has changed meanwhile."""
    if request.size < 0:
        raise failure(errno.EINVAL, request.path)
    return DONE if await _Opening(context, request, size=request.size).answer() else None


async def open_file(context: Context, request: Request) -> Answer | None:
    """Answers OPEN: tells which real file to open, and how; None where a name has changed
    meanwhile."""
    flags = request.flags
    if flags & os.O_PATH:
        flags &= os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
    create, cut = bool(flags & os.O_CREAT), bool(flags & os.O_TRUNC)
    exclusive = create and bool(flags & os.O_EXCL)
    if create and flags & os.O_DIRECTORY:
        raise failure(errno.EINVAL)
    write = flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)
    opening = _Opening(
        context,
        request,
        create,
        exclusive,
        write,
        cut,
        size=0 if cut and not write else None,
        directory=bool(flags & os.O_DIRECTORY),
        follow=not flags & os.O_NOFOLLOW and not exclusive,
        link=bool(flags & os.O_PATH and flags & os.O_NOFOLLOW),
    )
    return await opening.answer()


@dataclass(frozen=True)
class _Opening:
    """An open, and what it wants by its flags. size: the file gets it and is published, by nobody's
    descriptor. link: O_PATH and O_NOFOLLOW, the link itself will do."""

    context: Context
    request: Request
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

    async def answer(self) -> Answer | None:
        """Answers it; None where a name changed meanwhile. What takes long, copying and fetching,
        is done when the names are settled."""
        async with self.context.gate.passage():
            step = await self._decide()
        if isinstance(step, Slot):
            assert step.draft is not None
            return await self._begin(step.draft, step.entry)
        if isinstance(step, Entry):
            with contextlib.suppress(FileNotFoundError):  # it was replaced or removed meanwhile
                return Answer(Where.EXISTING, step, await self.context.store.local_path(step))
            return None
        return step

    async def _begin(self, object_id: int, entry: Entry | None) -> Answer | None:
        """Makes what is to be written, in place of `entry`, and has Drafts know it, or publishes
        it."""
        context, request, store, published = self.context, self.request, self.context.store, None
        try:
            if entry is not None and self.size == 0:
                store.create(object_id, entry.attr.mode)
            elif entry is not None and not self.cut:
                await store.copy(entry, object_id)
            if self.size is not None:
                if self.size:
                    await store.truncate(object_id, self.size)
                published = await context.publish(object_id, store.attr(object_id))
        except BaseException as error:
            await context.give_up(object_id)
            if isinstance(error, FileNotFoundError):
                return None  # replaced or removed while it was copied
            raise
        place, path = context.end_reserve(object_id), store.path(object_id)
        if self.size is not None:
            return Answer(Where.EXISTING, published, path) if published else None
        if place is None:
            store.discard(object_id)
            return None
        context.drafts.begin(place, object_id, request.pid)
        if entry is not None and not self.cut:
            return Answer(Where.EXISTING, context.store.entry(object_id), path)
        mode = stat.S_IFREG | request.mode & 0o7777
        attr = entry.attr if entry else Attr(mode, request.peer_uid, os.getgid(), 0, 0, 0, 0, 0)
        return Answer(Where.CREATE, context.store.entry(object_id, attr), path, entry is None)

    async def _decide(self) -> Answer | Entry | Slot | None:
        """Returns the answer, or what is to be done for it: an entry is to be read; a slot is
        reserved, and its draft is to be made."""
        request = self.request
        found = await resolve(self.context, request, self.follow, self.create)
        if found.is_free:
            return await self._open_free(found.place)
        entry, is_directory = found.entry, found.is_directory
        is_link = found.is_link and not self.follow
        refuse(
            request.path,
            (self.exclusive, errno.EEXIST),
            (is_link and self.directory, errno.ENOTDIR),
            (is_link and not self.link, errno.ELOOP),
            (is_directory and (self.create or self.changes), errno.EISDIR),
            (self.directory and not is_directory, errno.ENOTDIR),
            (found.is_input and self.changes, errno.EROFS),
        )
        if found.is_input:
            raise at_input(self.context, found)
        if entry is not None and is_link:
            return Answer(Where.HERE, entry, entry.target)
        if is_directory:
            return Answer(Where.DIRECTORY, entry, found.path)
        if found.own is not None:
            return await self._open_own(found.own)
        assert entry is not None
        if not self.changes:
            return entry
        refuse(request.path, (not may_write(entry.attr, request.peer_uid), errno.EACCES))
        return await self._reserve(found.place)

    async def _open_free(self, place: Place) -> Answer | Entry | Slot | None:
        context, request = self.context, self.request
        if not self.create:
            raise failure(errno.ENOENT, request.path)
        if self.write:
            return await self._reserve(place)
        try:
            return await context.make(place, request.mode & ~umask_of(request.pid))
        except FileExistsError:
            if self.exclusive:
                raise
        slot = await context.homes.slot(place)  # somebody else made it, or is writing it
        if slot.entry is None and slot.draft is not None:
            return await self._busy(slot.draft)
        return None

    async def _open_own(self, own: int) -> Answer | None:
        context = self.context
        if self.write and not await context.drafts.join(own, self.request.pid):
            await context.drafts.look(own)  # its end, which is under way
            return None
        if self.size is not None:
            await context.store.truncate(own, self.size)
        return self._joined(own)

    async def _reserve(self, place: Place) -> Answer | Slot | None:
        context, object_id = self.context, self.context.store.new_id()
        result = await context.reserve(
            object_id, place, self.request.pid, self.create, self.exclusive
        )
        if result.draft == object_id:
            return result
        return None if result.draft is None else await self._busy(result.draft)

    async def _busy(self, draft: int) -> Answer | None:
        """Answers where somebody else is writing the file: on this node one may join before there
        is anything in it. Raises ETXTBSY."""
        context, request = self.context, self.request
        if owner_of(draft) == context.peers.rank:
            await context.drafts.look(draft)
            if self.write and await context.drafts.join(draft, request.pid):
                return self._joined(draft)
        if await context.peers.call(owner_of(draft), "draft.look", draft):
            raise failure(errno.ETXTBSY, request.path)
        return None

    def _joined(self, draft: int) -> Answer:
        store = self.context.store
        try:
            entry = store.entry(draft)
        except OSError:  # who was allowed to make it has not done so yet
            entry = store.entry(draft, Attr(stat.S_IFREG, 0, 0, 0, 0, 0, 0, 0))
        where = Where.CUT if self.cut else Where.EXISTING
        return Answer(where, entry, store.path(draft))


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
