"""Answers what makes and removes names: mkdir, mknod, symlink, link, unlink, rmdir."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time

from fanstore.outputs.model.entries import Attr, Entry, Place, failure
from fanstore.outputs.model.wire import Answer, Request, Where
from fanstore.outputs.namespace.context import TRIES, Context
from fanstore.outputs.namespace.publishing import Publishing
from fanstore.outputs.namespace.walk import PATH_MAX, Resolved

_DIRECTORY_BYTES = 4096
_SECTOR_BYTES = 512
_KINDS = (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK)
DONE = Answer(Where.DONE)


class Naming:
    """Makes and removes names for the clients of one rank."""

    def __init__(self, context: Context, publishing: Publishing) -> None:
        self._context = context
        self._publishing = publishing

    async def _name(self, request: Request) -> Resolved:
        return await self._context.walker.name(request.view, request.path, request.pid)

    async def mkdir(self, request: Request) -> Answer:
        """Answers MKDIR."""
        mode = stat.S_IFDIR | request.mode & 0o1777
        attr = _new_attr(mode, request, _DIRECTORY_BYTES)
        entry = Entry(self._context.store.new_id(), attr)
        place = self._context.walker.hoped(request.view, request.path)
        if place is not None:
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                return await self._insert(place, entry)
        found = await self._name(request)
        if found.elsewhere is not None:
            return self._context.elsewhere(found)
        _check_new(found, request.path)
        return await self._insert(found.place, entry)

    async def _insert(self, place: Place, entry: Entry) -> Answer:
        await self._context.homes.insert(place, entry)
        self._context.observer.changed(place)
        return Answer(Where.DONE, entry)

    async def symlink(self, request: Request) -> Answer:
        """Answers SYMLINK."""
        if not request.other:
            raise failure(errno.ENOENT)
        if len(request.other) >= PATH_MAX:
            raise failure(errno.ENAMETOOLONG)
        found = await self._name(request)
        if found.elsewhere is not None:
            return self._context.elsewhere(found)
        _check_new(found, request.path, slash=False)
        attr = _new_attr(stat.S_IFLNK | 0o777, request, len(request.other))
        return await self._insert(
            found.place, Entry(self._context.store.new_id(), attr, request.other)
        )

    async def mknod(self, request: Request) -> Answer:
        """Answers MKNOD: makes regular files, and refuses all else when all else is well."""
        kind = stat.S_IFMT(request.mode) or stat.S_IFREG
        if kind not in _KINDS:
            raise failure(errno.EPERM if kind == stat.S_IFDIR else errno.EINVAL, request.path)
        found = await self._name(request)
        if found.elsewhere is not None:
            return self._context.elsewhere(found)
        _check_new(found, request.path, slash=False)
        if kind != stat.S_IFREG:
            raise failure(errno.EPERM, request.path)
        return Answer(Where.DONE, await self._publishing.make(found.place, request.mode))

    async def link(self, request: Request) -> Answer:
        """Answers LINK: refuses, as file systems without hard links do, when all else is well."""
        source = await self._context.walker.resolve(
            request.view, request.path, request.pid, bool(request.flags & _SYMLINK_FOLLOW)
        )
        if source.elsewhere is None and source.is_free:
            raise failure(errno.ENOENT, request.path)
        target = await self._context.walker.name(request.other_view, request.other, request.pid)
        if target.elsewhere is None:
            _check_new(target, request.other, slash=False)
        if source.elsewhere is not None and target.elsewhere is not None:
            return Answer(Where.ELSEWHERE, text=source.elsewhere + b"\0" + target.elsewhere)
        if (source.elsewhere is None) != (target.elsewhere is None):
            raise failure(errno.EXDEV, request.path)
        raise failure(errno.EXDEV if source.mount != target.mount else errno.EPERM, request.path)

    async def unlink(self, request: Request) -> Answer:
        """Answers UNLINK."""
        place = self._context.walker.hoped(request.view, request.path)
        if place is not None:
            with contextlib.suppress(FileNotFoundError):
                if await self._remove(place, None):
                    return DONE
        for _ in range(TRIES):
            found = await self._name(request)
            if found.elsewhere is not None:
                return self._context.elsewhere(found)
            _check_unlink(found, request.path)
            if await self._remove(found.place, identity(found)):
                return DONE
        raise failure(errno.EIO, request.path)

    async def _remove(self, place: Place, object_id: int | None) -> bool:
        removed = await self._context.homes.remove(place, object_id)
        if removed is None:
            return False
        await self._context.gone(removed)
        if removed.entry is not None:
            self._context.observer.changed(place)
        return True

    async def rmdir(self, request: Request) -> Answer:
        """Answers RMDIR."""
        for _ in range(TRIES):
            found = await self._name(request)
            if found.elsewhere is not None:
                return self._context.elsewhere(found)
            _check_rmdir(found, request.path)
            if await self._remove_directory(found):
                self._context.observer.changed(found.place)
                return DONE
        raise failure(errno.EIO, request.path)

    async def _remove_directory(self, found: Resolved) -> bool:
        homes = self._context.homes
        gone = False
        await homes.close(found.mount, found.path)
        try:
            gone = await homes.remove(found.place, identity(found)) is not None
        finally:
            await homes.end_close(found.mount, found.path, gone)
        return gone


# linkat(2)'s AT_SYMLINK_FOLLOW, which Python's os does not have.
_SYMLINK_FOLLOW = 0x400


def identity(found: Resolved) -> int:
    """Returns the object that a name stands for to the asking process."""
    if found.own is not None:
        return found.own
    assert found.entry is not None
    return found.entry.object_id


def _new_attr(mode: int, request: Request, size: int) -> Attr:
    now_ns = time.time_ns()
    blocks = size // _SECTOR_BYTES if stat.S_ISDIR(mode) else 0
    return Attr(mode, request.peer_uid, os.getgid(), size, blocks, now_ns, now_ns, now_ns)


def _check_new(found: Resolved, path: bytes, slash: bool = True) -> None:
    """Raises where no new name may be made there. slash: whether the path may end in one."""
    if found.special is not None or not found.is_free:
        raise failure(errno.EEXIST, path)
    if found.slash and not slash:
        raise failure(errno.ENOENT, path)


def _check_unlink(found: Resolved, path: bytes) -> None:
    if found.special is not None:
        raise failure(errno.EISDIR, path)
    if found.is_free:
        raise failure(errno.ENOENT, path)
    if found.is_input:
        raise failure(errno.EROFS, path)
    if found.is_directory:
        raise failure(errno.EISDIR, path)
    if found.slash:
        raise failure(errno.ENOTDIR, path)


_SPECIAL_RMDIR = {b".": errno.EINVAL, b"..": errno.ENOTEMPTY, b"/": errno.EBUSY}


def _check_rmdir(found: Resolved, path: bytes) -> None:
    if found.special is not None:
        raise failure(_SPECIAL_RMDIR[found.special], path)
    if found.is_free:
        raise failure(errno.ENOENT, path)
    if found.is_input:
        raise failure(errno.EROFS, path)
    if not found.is_directory:
        raise failure(errno.ENOTDIR, path)
