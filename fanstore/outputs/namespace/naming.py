"""Answers what makes and removes names: mkdir, mknod, symlink, link, unlink, rmdir."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Mapping

from fanstore.outputs.model.entries import Attr, Entry, Place, failure, refuse
from fanstore.outputs.model.wire import Answer, Request, Where
from fanstore.outputs.namespace.context import DONE, Context
from fanstore.outputs.namespace.walk import PATH_MAX, Resolved, end_of, name, resolve, together

_DIRECTORY_BYTES = 4096
_SECTOR_BYTES = 512
_KINDS = (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK)
_SYMLINK_FOLLOW = 0x400  # linkat(2)'s AT_SYMLINK_FOLLOW, which Python's os does not have
_SPECIAL_UNLINK = dict.fromkeys((b".", b"..", b"/"), errno.EISDIR)
_SPECIAL_RMDIR = {b".": errno.EINVAL, b"..": errno.ENOTEMPTY, b"/": errno.EBUSY}


async def mkdir(context: Context, request: Request) -> Answer:
    """Answers MKDIR: makes a directory, and tells its attributes."""
    found = await _new_name(context, request, slash=True)
    mode = stat.S_IFDIR | request.mode & 0o1777
    return await _insert(context, found, request, mode, _DIRECTORY_BYTES)


async def symlink(context: Context, request: Request) -> Answer:
    """Answers SYMLINK: makes a symbolic link, whatever its target is."""
    is_long = len(request.other) >= PATH_MAX
    refuse(request.other, (not request.other, errno.ENOENT), (is_long, errno.ENAMETOOLONG))
    found = await _new_name(context, request)
    mode = stat.S_IFLNK | 0o777
    return await _insert(context, found, request, mode, len(request.other), request.other)


async def _insert(
    context: Context, found: Resolved, request: Request, mode: int, size: int, target: bytes = b""
) -> Answer:
    now_ns = time.time_ns()
    blocks = size // _SECTOR_BYTES if stat.S_ISDIR(mode) else 0
    attr = Attr(mode, request.peer_uid, os.getgid(), size, blocks, now_ns, now_ns, now_ns)
    entry = Entry(context.store.new_id(), attr, target)
    await context.homes.insert(found.place, entry)
    context.observer.changed(found.place)
    return Answer(Where.DONE, entry)


async def mknod(context: Context, request: Request) -> Answer:
    """Answers MKNOD: makes regular files, and refuses all else when all else is well."""
    kind = stat.S_IFMT(request.mode) or stat.S_IFREG
    if kind not in _KINDS:
        raise failure(errno.EPERM if kind == stat.S_IFDIR else errno.EINVAL, request.path)
    found = await _new_name(context, request)
    if kind != stat.S_IFREG:
        raise failure(errno.EPERM, request.path)
    return Answer(Where.DONE, await context.make(found.place, request.mode))


async def link(context: Context, request: Request) -> Answer:
    """Answers LINK: refuses, as file systems without hard links do, when all else is well."""
    source = await end_of(resolve(context, request, bool(request.flags & _SYMLINK_FOLLOW)))
    if isinstance(source, Resolved) and source.is_free:
        raise failure(errno.ENOENT, request.path)
    together(source, await end_of(_new_name(context, request.about_other())))
    raise failure(errno.EPERM, request.path)


async def unlink(context: Context, request: Request) -> Answer | None:
    """Answers UNLINK: removes a name of no directory; None where it has changed meanwhile."""
    found = await _to_remove(context, request, _SPECIAL_UNLINK)
    refuse(request.path, (found.is_directory, errno.EISDIR), (found.slash, errno.ENOTDIR))
    removed = await context.homes.remove(found.place, found.identity)
    if removed is None:
        return None
    await context.tell_place(removed, None)
    if removed.entry is not None:
        context.observer.changed(found.place)
    return DONE


async def rmdir(context: Context, request: Request) -> Answer | None:
    """Answers RMDIR: removes an empty directory; None where its name has changed meanwhile."""
    found = await _to_remove(context, request, _SPECIAL_RMDIR)
    refuse(request.path, (not found.is_directory, errno.ENOTDIR))
    homes, gone = context.homes, False
    inside, token = Place(found.mount, found.path, b""), homes.new_token()
    await homes.close(inside, token)
    try:
        gone = await homes.remove(found.place, found.identity) is not None
    finally:
        await homes.unlock(inside, token, gone)
    if not gone:
        return None
    context.observer.changed(found.place)
    return DONE


async def _new_name(context: Context, request: Request, slash: bool = False) -> Resolved:
    """Returns the name that is to be made. Raises where none may be. slash: whether its path may
    end in one."""
    found = await name(context, request)
    taken = found.special is not None or not found.is_free
    refuse(
        request.path,
        (found.is_long, errno.ENAMETOOLONG),
        (taken, errno.EEXIST),
        (found.slash and not slash, errno.ENOENT),
    )
    return found


async def _to_remove(context: Context, request: Request, special: Mapping[bytes, int]) -> Resolved:
    """Returns what is to be removed. Raises where nothing may be: `special` has the errors of
    paths that do not end in a name."""
    found = await name(context, request)
    if found.special is not None:
        raise failure(special[found.special], request.path)
    refuse(
        request.path,
        (found.is_long, errno.ENAMETOOLONG),
        (found.is_free, errno.ENOENT),
        (found.is_input, errno.EROFS),
    )
    return found
