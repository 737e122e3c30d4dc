"""Answers open(2)."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from dataclasses import dataclass, replace

from fanstore.outputs.model.entries import Attr, Entry, Place, failure, owner_of
from fanstore.outputs.model.wire import Answer, Request, Where
from fanstore.outputs.namespace.context import TRIES, Context
from fanstore.outputs.namespace.publishing import Publishing
from fanstore.outputs.namespace.truncating import Truncating
from fanstore.outputs.namespace.walk import Resolved


@dataclass(frozen=True)
class _Wish:
    """What an open wants, by its flags."""

    create: bool
    exclusive: bool
    write: bool
    cut: bool
    directory: bool
    follow: bool
    link: bool  # O_PATH and O_NOFOLLOW: the link itself will do

    @staticmethod
    def of(flags: int) -> _Wish:
        if flags & os.O_PATH:
            flags &= os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
        create = bool(flags & os.O_CREAT)
        exclusive = create and bool(flags & os.O_EXCL)
        if create and flags & os.O_DIRECTORY:
            raise failure(errno.EINVAL)
        return _Wish(
            create,
            exclusive,
            flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR),
            bool(flags & os.O_TRUNC),
            bool(flags & os.O_DIRECTORY),
            not flags & os.O_NOFOLLOW and not exclusive,
            bool(flags & os.O_PATH and flags & os.O_NOFOLLOW),
        )


@dataclass(frozen=True)
class _Reopened:
    """A published file that is to be written on: its name is reserved for a copy."""

    entry: Entry
    object_id: int


class Opening:
    """Opens files for the clients of one rank."""

    def __init__(self, context: Context, publishing: Publishing, truncating: Truncating) -> None:
        self._context = context
        self._publishing = publishing
        self._truncating = truncating

    async def open(self, request: Request) -> Answer:
        """Answers OPEN. What takes long, copying and fetching, is done when the names are
        settled."""
        wish = _Wish.of(request.flags)
        for _ in range(TRIES):
            async with self._context.gate.passage():
                step = await self._decide(request, wish)
            if isinstance(step, Entry):
                step = await self._for_reading(step)
            elif isinstance(step, _Reopened):
                step = await self._copied(step, request)
            if step is not None:
                return step
        raise failure(errno.EIO, request.path)

    async def _for_reading(self, entry: Entry) -> Answer | None:
        with contextlib.suppress(FileNotFoundError):  # it was replaced or removed meanwhile
            return Answer(Where.EXISTING, entry, await self._context.store.local_path(entry))
        return None

    async def _copied(self, reopened: _Reopened, request: Request) -> Answer | None:
        object_id = reopened.object_id
        store = self._context.store
        try:
            await store.copy(reopened.entry, object_id)
        except BaseException as error:
            place = self._publishing.end_reserve(object_id)
            await self._publishing.release_at(place, object_id)
            if isinstance(error, FileNotFoundError):
                return None
            raise
        place = self._publishing.end_reserve(object_id)
        if place is None:
            store.discard(object_id)
            return None
        self._context.drafts.begin(place, object_id, request.pid)
        return Answer(Where.EXISTING, self._now(object_id), store.path(object_id))

    async def _decide(self, request: Request, wish: _Wish) -> Answer | Entry | _Reopened | None:
        """Returns the answer, or what is to be done for it: an entry is to be read, a _Reopened to
        be copied. None: a name changed meanwhile, look again."""
        walker = self._context.walker
        made = await self._make(request, wish)
        if made is not None:
            return made
        found = await walker.resolve(
            request.view, request.path, request.pid, wish.follow, wish.create
        )
        if found.elsewhere is not None:
            return self._context.elsewhere(found)
        if found.is_free:
            return await self._open_free(found, request, wish)
        if wish.exclusive:
            raise failure(errno.EEXIST, request.path)
        if found.is_link and not wish.follow:
            return self._open_link(found, request, wish)
        if found.is_directory:
            return self._open_directory(found, request, wish)
        if wish.directory:
            raise failure(errno.ENOTDIR, request.path)
        return await self._open_file(found, request, wish)

    async def _make(self, request: Request, wish: _Wish) -> Answer | _Reopened | None:
        """Makes a new file with one question to its home; None: something is there, or in the
        way."""
        place = self._context.walker.hoped(request.view, request.path)
        if place is not None and wish.create and wish.write:
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                return await self._reserve(place, request, replace(wish, exclusive=True))
        return None

    def _open_link(self, found: Resolved, request: Request, wish: _Wish) -> Answer:
        if wish.directory:
            raise failure(errno.ENOTDIR, request.path)
        if not wish.link:
            raise failure(errno.ELOOP, request.path)
        if found.entry is None:
            return self._context.elsewhere(found)
        return Answer(Where.HERE, found.entry, found.entry.target)

    def _open_directory(self, found: Resolved, request: Request, wish: _Wish) -> Answer:
        if wish.create or wish.write or wish.cut:
            raise failure(errno.EISDIR, request.path)
        if found.is_input:
            return self._context.elsewhere(found)
        return Answer(Where.DIRECTORY, found.entry, found.path)

    async def _open_file(
        self, found: Resolved, request: Request, wish: _Wish
    ) -> Answer | Entry | _Reopened | None:
        if found.is_input:
            if wish.write or wish.cut:
                raise failure(errno.EROFS, request.path)
            return self._context.elsewhere(found)
        if found.own is not None:
            return await self._open_own(found.own, request, wish)
        assert found.entry is not None
        if not (wish.write or wish.cut):
            return found.entry
        if not may_write(found.entry.attr, request.peer_uid):
            raise failure(errno.EACCES, request.path)
        if not wish.write:
            await self._truncating.cut(found, 0, request.pid)
            return await self._decide(request, replace(wish, cut=False))
        return await self._reserve(found.place, request, wish)

    async def _open_free(
        self, found: Resolved, request: Request, wish: _Wish
    ) -> Answer | Entry | _Reopened | None:
        if not wish.create:
            raise failure(errno.ENOENT, request.path)
        if wish.write:
            return await self._reserve(found.place, request, wish)
        try:
            mode = request.mode & ~umask_of(request.pid)
            return await self._publishing.make(found.place, mode)
        except FileExistsError:
            if wish.exclusive:
                raise
            return await self._taken(found, request, wish)

    async def _taken(self, found: Resolved, request: Request, wish: _Wish) -> Answer | None:
        """Answers where somebody else made the file meanwhile, or is writing it; None: look
        again."""
        slot = await self._context.homes.slot(found.place)
        if slot.entry is None and slot.draft is not None:
            return await self._busy(slot.draft, request, wish)
        return None

    async def _open_own(self, own: int, request: Request, wish: _Wish) -> Answer | None:
        if wish.write and not await self._context.drafts.join(own, request.pid):
            await self._context.drafts.look(own)  # its end, which is under way
            return None
        where = Where.CUT if wish.cut else Where.EXISTING
        return Answer(where, self._now(own), self._context.store.path(own))

    async def _reserve(
        self, name: Place, request: Request, wish: _Wish
    ) -> Answer | _Reopened | None:
        context = self._context
        object_id = context.store.new_id()
        result = await self._publishing.reserve(
            object_id, name, request.pid, wish.create, wish.exclusive
        )
        if not result.taken:
            return None if result.draft is None else await self._busy(result.draft, request, wish)
        if result.entry is not None and not wish.cut:
            return _Reopened(result.entry, object_id)
        place = self._publishing.end_reserve(object_id)
        if place is None:
            return None
        context.drafts.begin(place, object_id, request.pid)
        attr = result.entry.attr if result.entry else _fresh(request)
        entry = context.versions.entry(object_id, attr)
        fresh = result.entry is None
        return Answer(Where.CREATE, entry, context.store.path(object_id), fresh)

    async def _busy(self, draft: int, request: Request, wish: _Wish) -> Answer | None:
        """Answers where somebody else is writing the file: on this node one may join before there
        is anything in it. Raises ETXTBSY."""
        context = self._context
        if owner_of(draft) == context.peers.rank:
            with contextlib.suppress(OSError):
                await context.drafts.look(draft)
            if wish.write and await context.drafts.join(draft, request.pid):
                where = Where.CUT if wish.cut else Where.EXISTING
                return Answer(where, self._now(draft), context.store.path(draft))
        if await context.peers.call(owner_of(draft), "draft.look", draft):
            raise failure(errno.ETXTBSY, request.path)
        return None

    def _now(self, object_id: int) -> Entry:
        """Returns the entry of an object that is being written, as it is by now."""
        try:
            return self._context.versions.entry(object_id)
        except OSError:
            return self._context.versions.entry(object_id, Attr(stat.S_IFREG, 0, 0, 0, 0, 0, 0, 0))


def _fresh(request: Request) -> Attr:
    mode = stat.S_IFREG | request.mode & 0o7777
    return Attr(mode, request.peer_uid, os.getgid(), 0, 0, 0, 0, 0)


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
