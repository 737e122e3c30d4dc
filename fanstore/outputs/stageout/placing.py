"""Puts files, directories and links where they belong in the output directory, and never over what
somebody else put there.

All of it waits for the file system: it is called in threads. Files come here whole and synced,
under a name in the scratch directory, `.fanstore-<job>`, of the rank that copied them.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import time
from collections.abc import Sequence
from typing import Any

from fanstore._native import ffi, lib
from fanstore.outputs.model.entries import Attr, Place
from fanstore.outputs.objects.files import set_attr
from fanstore.outputs.stageout.journal import Header, Identity
from fanstore.outputs.stageout.syncing import sync_all

_ATTEMPTS = 100
_SYNC_EACH_S = 1.0
_SYNCED_TOGETHER = 128
_GONE = contextlib.suppress(FileNotFoundError, NotADirectoryError)
_NOTHING_TO_SYNC = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP})


class ParentInTheWay(OSError):
    """Something that is no directory stands where a parent belongs; perhaps this job placed it, and
    is about to remove it."""


class OutputDirectory:
    """The output directory of the job that a journal is of. `root` is made, if its parent is there,
    when the first output is placed. backups: where things went, for people, that were in the way of
    outputs."""

    def __init__(self, header: Header) -> None:
        self.root = header.root
        self._folders = header.folders
        self._scratch = os.path.join(header.root, b".fanstore-" + header.job_id.encode())
        self._mode = 0o777 & ~header.umask
        self._numbers = itertools.count(1)
        self._unsynced: set[bytes] = set()
        self.backups: list[str] = []
        self._synced_s = time.monotonic()

    def path(self, name: Place) -> bytes:
        """Returns the absolute path at which a name's file belongs."""
        return os.path.join(self.root, self._folders[name.mount], name.path)

    def shown(self, name: Place) -> str:
        """Returns that path for people, relative to the output directory."""
        return os.fsdecode(os.path.join(self._folders[name.mount], name.path))

    def scratch(self, objects: Sequence[int]) -> list[bytes]:
        """Returns a path for a copy of each object while it is made, `<scratch>/<id>.<n>.part`, and
        makes their directory. Each copy has a path of its own: an object that is renamed may be
        copied for its new name before the copy for the old one is there."""
        self._make_scratch()
        return [
            os.path.join(self._scratch, b"%x.%d.part" % (each, next(self._numbers)))
            for each in objects
        ]

    def takes_link(self, path: bytes) -> bool:
        """Tells whether a file may get a second name here instead of being copied: it can, and
        neither it nor what is made here has an ACL of its own."""
        with contextlib.suppress(OSError):
            (temporary,) = self.scratch([0])
            os.link(path, temporary)
            os.unlink(temporary)
            names = [*os.listxattr(path), *os.listxattr(self._scratch)]
            return not any(name.startswith("system.posix_acl_") for name in names)
        return False

    def place_files(
        self,
        copies: Sequence[tuple[bytes, Place, Identity | None]],
        placed: list[Identity],
        ended: Any,
        force: bool = True,
    ) -> None:
        """Gives whole files, or links, their names, in their order, and adds to `placed` their
        identities there; only what has the identity given with a name may be replaced. Ends where
        anything fails, or `ended`, an int32_t, is not 0; copies without a name are gone then.

        force: what is in the way of their parents goes, too; else that raises ParentInTheWay.
        """
        turns = [(temporary, self.path(name), mine) for temporary, name, mine in copies]
        try:
            for parent, each in itertools.groupby(turns, lambda turn: os.path.dirname(turn[1])):
                self._make_parents(parent, force)
                group = list(each)
                while group and not ended[0]:
                    named = name_together([turn[:2] for turn in group], ended)
                    placed += named
                    group = group[len(named) :]
                    if group and not ended[0]:
                        placed.append(self._put(*group.pop(0)))
                    self._changed(parent)
        finally:
            for temporary, _, _ in turns[len(placed) :]:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def make_link(self, target: bytes, object_id: int) -> bytes:
        """Makes a symbolic link in the scratch directory; returns its path."""
        (temporary,) = self.scratch([object_id])
        os.symlink(target, temporary)
        return temporary

    def place_directory(
        self, name: Place, mode: int, mine: Identity | None, force: bool = True
    ) -> bool:
        """Makes a directory where none is; returns whether it did. mine, force: as in
        place_files."""
        path = self.path(name)
        self._make_parents(os.path.dirname(path), force)
        for _ in range(_ATTEMPTS):
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:
                if os.path.isdir(path) and not os.path.islink(path):
                    return False
                self._take_away(path, mine)
                continue
            os.chmod(path, stat.S_IMODE(mode) | 0o700)
            self._changed(os.path.dirname(path))
            return True
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def remove_file(self, name: Place, mine: Identity) -> None:
        """Removes a file or link if its identity is `mine`; anything else stays."""
        with _GONE:
            if self._is_own(name, mine):
                self._take_away(self.path(name), mine)

    def remove_directory(self, name: Place) -> bool:
        """Removes a directory if nothing is in it; returns False if something is."""
        with _GONE:
            try:
                if self._is_own(name, None):
                    os.rmdir(self.path(name))
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return False
        return True

    def set_mode(self, name: Place, mode: int, mtime_ns: int | None = None) -> None:
        """Sets a directory's mode, but for that its owner may make names in it; with a time, which
        it gets, too, to just that mode: nothing more comes into it then."""
        path, mode = self.path(name), stat.S_IMODE(mode)
        with _GONE:
            if self._is_own(name, None):
                if mtime_ns is not None:
                    os.utime(path, ns=(mtime_ns, mtime_ns))
                os.chmod(path, mode | 0o700 if mtime_ns is None else mode)

    def change_file(self, name: Place, attr: Attr, mine: Identity) -> Identity | None:
        """Gives a file new attributes if its identity is `mine`; returns its identity afterwards,
        else None. One that is the object itself has them already."""
        path = self.path(name)
        with _GONE:
            changed = mine._replace(mtime_ns=attr.mtime_ns)
            if self._is_own(name, mine) or self._is_own(name, changed):
                set_attr(path, attr)
                return Identity.of(os.lstat(path))
        return None

    def sync(self) -> None:
        """Makes all names that were given so far last (fsync(2) of their directories). Raises
        OSError."""
        self._synced_s = time.monotonic()
        while together := list(itertools.islice(self._unsynced, _SYNCED_TOGETHER)):
            failed = sync_directories(together)
            if failed:
                raise failed[0]
            self._unsynced.difference_update(together)

    def _changed(self, directory: bytes) -> None:
        """Notes that a directory has new names. Directories are synced together, after a while: one
        by one that takes as long as all else. What fails is tried again by whoever calls `sync` at
        the end."""
        self._unsynced.add(directory)
        if time.monotonic() > self._synced_s + _SYNC_EACH_S:
            with contextlib.suppress(OSError):
                self.sync()

    def clear_scratch(self) -> None:
        """Removes the unfinished copies of a job that is at its end or dead, and the scratch
        directory if nothing else is in it; syncs."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._scratch):
                if name.endswith(b".part"):
                    with contextlib.suppress(OSError):
                        os.unlink(os.path.join(self._scratch, name))
        with contextlib.suppress(OSError):
            self.sync()
        with contextlib.suppress(OSError):
            os.rmdir(self._scratch)

    def _make_root(self) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.root, self._mode)
            os.chmod(self.root, self._mode)

    def _make_scratch(self) -> None:
        if os.path.isdir(self._scratch):
            return
        self._make_root()
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._scratch, 0o700)

    def _old(self) -> bytes:
        """Returns a path for what leaves its own for a moment. It is no `.part`: as long as it is
        not known whose it is, nobody removes it."""
        self._make_scratch()
        return os.path.join(self._scratch, b"%d.%d.old" % (os.getpid(), next(self._numbers)))

    def _is_own(self, name: Place, mine: Identity | None) -> bool:
        """Tells whether what is there has this identity; None: whether it is a directory."""
        path = self.path(name)
        if not self._is_reached(os.path.dirname(path)):
            return False
        found = os.lstat(path)
        return stat.S_ISDIR(found.st_mode) if mine is None else _is(found, mine)

    def _is_reached(self, directory: bytes) -> bool:
        """Tells whether no link leads elsewhere on the way from the root to a directory."""
        try:
            root, real = real_directory(self.root), real_directory(directory)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            return False
        return real == os.path.normpath(os.path.join(root, os.path.relpath(directory, self.root)))

    def _make_parents(self, directory: bytes, force: bool) -> None:
        """Makes directories that nobody placed, those of inputs, as mkdir(1) would. What is in the
        way goes elsewhere, as links do: they may lead anywhere."""
        if self._is_reached(directory):
            return
        self._make_root()
        at = self.root
        for part in os.path.relpath(directory, self.root).split(b"/"):
            at = os.path.join(at, part)
            if os.path.isdir(at) and not os.path.islink(at):
                continue
            if os.path.lexists(at):
                if not force:
                    raise ParentInTheWay(errno.ENOTDIR, os.strerror(errno.ENOTDIR), at)
                self._back_up(at, at)
            with contextlib.suppress(FileExistsError):
                os.mkdir(at, self._mode)
                os.chmod(at, self._mode)
            self._unsynced.add(os.path.dirname(at))

    def _put(self, temporary: bytes, path: bytes, mine: Identity | None) -> Identity:
        """Puts a file at `path`; returns its identity. What is in the way leaves in the same step
        in which the file comes, so that no other job's file is overwritten, even one that came
        this moment."""
        identity = Identity.of(os.lstat(temporary))
        try:
            rename_to_free(temporary, path)
        except FileExistsError:
            if not os.path.isdir(path) or os.path.islink(path):
                self._replace(temporary, path, mine)
            else:
                self._back_up(path, path)
                rename_to_free(temporary, path)
        return identity

    def _replace(self, temporary: bytes, path: bytes, mine: Identity | None) -> None:
        old = self._old()
        os.rename(temporary, old)
        try:
            exchanged = exchange(old, path)
            if not exchanged:
                if mine is None or not _is(os.lstat(path), mine):
                    self._back_up(path, path)
                os.rename(old, path)
        except OSError:
            with contextlib.suppress(OSError):
                rename_to_free(old, temporary)
            raise
        if exchanged:
            self._dispose(old, path, mine)

    def _take_away(self, path: bytes, mine: Identity | None) -> None:
        """Frees a name: removes what is ours, backs up what is not."""
        old = path
        if mine is not None:
            old = self._old()
            os.rename(path, old)
        self._dispose(old, path, mine)

    def _dispose(self, old: bytes, path: bytes, mine: Identity | None) -> None:
        """Removes what left `path` for `old` if it is ours, else backs it up beside `path`."""
        if mine is not None and _is(os.lstat(old), mine):
            os.unlink(old)
        else:
            self._back_up(old, path)

    def _back_up(self, path: bytes, beside: bytes) -> None:
        backup = back_up(path, beside)
        self.backups.append(os.fsdecode(os.path.relpath(backup, self.root)))


def name_together(pairs: Sequence[tuple[bytes, bytes]], ended: Any) -> list[Identity]:
    """Renames files to free names in their order, as many as it can before one fails; returns the
    identities of those. ended: as place_files has it."""
    paths = b"".join(b"%s\0%s\0" % pair for pair in pairs)
    found, error = ffi.new("struct fan_identity[]", len(pairs)), ffi.new("int32_t *")
    count = lib.fan_name_files(paths, len(pairs), found, ended, error)
    return [Identity(each.inode, each.size, each.mtime_ns) for each in found[0:count]]


def _is(found: os.stat_result, identity: Identity) -> bool:
    return Identity.of(found) == identity and not stat.S_ISDIR(found.st_mode)


def real_directory(directory: bytes) -> bytes:
    """Returns the path of a directory without links."""
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return os.readlink(b"/proc/self/fd/%d" % fd)
    finally:
        os.close(fd)


def sync_directories(directories: Sequence[bytes]) -> list[OSError]:
    """Makes the names in directories last; returns what failed. That a directory is gone, or that
    its file system has nothing to sync, does not count."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    fds: list[int] = []
    try:
        for directory in directories:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                fds.append(os.open(directory, flags))
        return [each for each in sync_all(fds) if each and each.errno not in _NOTHING_TO_SYNC]
    finally:
        for fd in fds:
            os.close(fd)


def _check(number: int, old: bytes, new: bytes) -> None:
    if number:
        raise OSError(number, os.strerror(number), old, None, new)


def rename_to_free(old: bytes, new: bytes) -> None:
    """Renames to a name that is free. Raises FileExistsError where it is not."""
    _check(lib.fan_rename_to_free(old, new), old, new)


def exchange(one: bytes, other: bytes) -> bool:
    """Lets two names change places; returns False where the file system cannot."""
    number = lib.fan_exchange_names(one, other)
    if number != errno.EOPNOTSUPP:
        _check(number, one, other)
    return not number


def back_up(path: bytes, beside: bytes) -> bytes:
    """Renames `path` to the first free one of `beside`.~1~, .~2~ and so on; returns that."""
    folder, name = os.path.split(beside)
    number = 1
    while True:
        suffix = b".~%d~" % number
        backup = os.path.join(folder, name[: 255 - len(suffix)] + suffix)
        with contextlib.suppress(FileExistsError):
            rename_to_free(path, backup)
            return backup
        number += 1
