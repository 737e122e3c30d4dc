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
from fanstore.outputs.model.entries import Attr
from fanstore.outputs.objects.files import set_attr
from fanstore.outputs.stageout.journal import Header, Identity, Name
from fanstore.outputs.stageout.rename_safely import back_up, exchange, rename_to_free
from fanstore.outputs.stageout.syncing import sync_all

_ATTEMPTS = 100
_SYNC_EACH_S = 1.0
_SYNCED_TOGETHER = 128
_NOTHING_TO_SYNC = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP})


class ParentInTheWay(OSError):
    """Something that is no directory stands where a parent belongs; perhaps this job placed it, and
    is about to remove it."""


class OutputDirectory:
    """The output directory of a job. `root` is made, if its parent is there, when the first output
    is placed."""

    def __init__(
        self,
        root: bytes,
        folders: Sequence[bytes],
        job_id: str,
        umask: int,
    ) -> None:
        self.root = root
        self._folders = folders
        self._scratch = os.path.join(root, b".fanstore-" + job_id.encode())
        self._mode = 0o777 & ~umask
        self._numbers = itertools.count(1)
        self._unsynced: set[bytes] = set()
        self._synced_s = time.monotonic()

    @staticmethod
    def of(header: Header) -> OutputDirectory:
        """Returns the output directory of the job that a journal is of."""
        return OutputDirectory(header.root, header.folders, header.job_id, header.umask)

    def path(self, name: Name) -> bytes:
        """Returns the absolute path at which a name's file belongs."""
        return os.path.join(self.root, self._folders[name.mount], name.path)

    def shown(self, name: Name) -> str:
        """Returns that path for people, relative to the output directory."""
        return os.fsdecode(os.path.join(self._folders[name.mount], name.path))

    @property
    def shown_root(self) -> str:
        """The path of the output directory, for people."""
        return os.fsdecode(self.root)

    def relative(self, path: bytes) -> str:
        """Returns a path in the output directory for people, relative to that."""
        return os.fsdecode(os.path.relpath(path, self.root))

    def scratch(self, object_id: int) -> bytes:
        """Returns a path for one copy of an object while it is made, `<scratch>/<id>.<n>.part`, and
        makes its directory."""
        return self.scratch_paths([object_id])[0]

    def scratch_paths(self, objects: Sequence[int]) -> list[bytes]:
        """Does what `scratch` does for many. Each copy has a path of its own: an object that is
        renamed may be copied for its new name before the copy for the old one is there."""
        self._make_scratch()
        return [self._new_path(each) for each in objects]

    def _new_path(self, object_id: int) -> bytes:
        return os.path.join(self._scratch, b"%x.%d.part" % (object_id, next(self._numbers)))

    def place_file(
        self, temporary: bytes, name: Name, mine: Identity | None, force: bool = True
    ) -> tuple[Identity, bytes | None]:
        """Gives a whole file its name; only a file whose identity is `mine` may be replaced.
        Returns its identity there, and where something else went that was in the way.

        force: what is in the way of its parents goes, too; else that raises ParentInTheWay.
        """
        path = self.path(name)
        try:
            aside = self._make_parents(path, force)
            identity = Identity.of(os.lstat(temporary))
            backup = self._put(temporary, path, mine) or aside
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self._changed(path)
        return identity, backup

    def place_files(
        self, copies: Sequence[tuple[bytes, Name]], placed: list[Identity], ended: Any
    ) -> None:
        """Gives whole files their names, in their order, and adds to `placed` their identities
        there. Ends where a name is not free, or anything fails, or `ended`, an int32_t, is not 0;
        copies without a name are gone then."""
        pairs = [(temporary, self.path(name)) for temporary, name in copies]
        try:
            for _, each in itertools.groupby(pairs, lambda pair: os.path.dirname(pair[1])):
                group = list(each)
                self._make_parents(group[0][1], False)
                named = name_together(group, ended)
                placed += named
                self._changed(group[0][1])
                if len(named) < len(group):
                    break
        finally:
            for temporary, _ in pairs[len(placed) :]:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def place_link(
        self, target: bytes, name: Name, object_id: int, mine: Identity | None, force: bool = True
    ) -> tuple[Identity, bytes | None]:
        """Makes a symbolic link and gives it its name, as place_file does with a file."""
        temporary = self.scratch(object_id)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        os.symlink(target, temporary)
        return self.place_file(temporary, name, mine, force)

    def place_directory(
        self, name: Name, mode: int, mine: Identity | None, force: bool = True
    ) -> tuple[bool, bytes | None]:
        """Makes a directory where none is. Returns whether it was made, and where something else
        went that was in the way."""
        path = self.path(name)
        backup = self._make_parents(path, force)
        for _ in range(_ATTEMPTS):
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:
                if os.path.isdir(path) and not os.path.islink(path):
                    return False, backup
                backup = self._take_away(path, mine) or backup
                continue
            os.chmod(path, stat.S_IMODE(mode) | 0o700)
            self._changed(path)
            return True, backup
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def remove_file(self, name: Name, mine: Identity) -> None:
        """Removes a file or link if its identity is `mine`; anything else stays."""
        path = self.path(name)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if self._is_reached(path) and _is(path, mine):
                self._take_away(path, mine)

    def remove_directory(self, name: Name) -> bool:
        """Removes a directory if nothing is in it; returns False if something is."""
        path = self.path(name)
        try:
            if self._is_reached(path):
                os.rmdir(path)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
        return True

    def set_mode(self, name: Name, mode: int) -> None:
        """Sets a directory's mode, and lets its owner make names in it until the end; see
        `seal`."""
        path = self.path(name)
        with contextlib.suppress(FileNotFoundError):
            if self._is_reached(path) and not os.path.islink(path):
                os.chmod(path, stat.S_IMODE(mode) | 0o700)

    def seal(self, name: Name, mode: int, mtime_ns: int) -> None:
        """Gives a directory its exact mode and time, when nothing more comes into it."""
        path = self.path(name)
        with contextlib.suppress(FileNotFoundError):
            if self._is_reached(path) and not os.path.islink(path):
                os.utime(path, ns=(mtime_ns, mtime_ns))
                os.chmod(path, stat.S_IMODE(mode))

    def change_file(self, name: Name, attr: Attr, mine: Identity) -> Identity | None:
        """Gives a file new attributes if its identity is `mine`; returns its identity afterwards,
        else None."""
        path = self.path(name)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if self._is_reached(path) and _is(path, mine):
                set_attr(path, attr)
                return Identity.of(os.lstat(path))
        return None

    def sync(self) -> None:
        """Makes all names that were given so far last (fsync(2) of their directories). Raises
        OSError."""
        self._synced_s = time.monotonic()
        while together := list(itertools.islice(self._unsynced, _SYNCED_TOGETHER)):
            failed = _sync(together)
            if failed:
                raise failed[0]
            self._unsynced.difference_update(together)

    def _changed(self, path: bytes) -> None:
        """Notes a new name. Directories are synced together, after a while: one by one that takes
        as long as all else. What fails is tried again by whoever calls `sync` at the end."""
        self._unsynced.add(os.path.dirname(path))
        if time.monotonic() > self._synced_s + _SYNC_EACH_S:
            with contextlib.suppress(OSError):
                self.sync()

    def close(self) -> None:
        """Syncs, and removes the scratch directory if nothing is in it."""
        with contextlib.suppress(OSError):
            self.sync()
        with contextlib.suppress(OSError):
            os.rmdir(self._scratch)

    def clear_scratch(self) -> None:
        """Removes the unfinished copies of a job that is dead, and the scratch directory if nothing
        else is in it."""
        names: list[bytes] = []
        with contextlib.suppress(OSError):
            names = os.listdir(self._scratch)
        for name in names:
            if name.endswith(b".part"):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(self._scratch, name))
        self.close()

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

    def _is_reached(self, path: bytes) -> bool:
        """Tells whether no link leads elsewhere on the way from the root to a path."""
        parent = os.path.dirname(path)
        try:
            root, real = _real(self.root), _real(parent)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            return False
        return real == os.path.normpath(os.path.join(root, os.path.relpath(parent, self.root)))

    def _make_parents(self, path: bytes, force: bool) -> bytes | None:
        """Makes directories that nobody placed, those of inputs, as mkdir(1) would. Returns where
        something else went that was in the way, as links are: they may lead anywhere."""
        if self._is_reached(path):
            return None
        self._make_root()
        at, backup = self.root, None
        for part in os.path.relpath(os.path.dirname(path), self.root).split(b"/"):
            at = os.path.join(at, part)
            if os.path.isdir(at) and not os.path.islink(at):
                continue
            if os.path.lexists(at):
                if not force:
                    raise ParentInTheWay(errno.ENOTDIR, os.strerror(errno.ENOTDIR), at)
                backup = back_up(at, at)
            with contextlib.suppress(FileExistsError):
                os.mkdir(at, self._mode)
                os.chmod(at, self._mode)
            self._unsynced.add(os.path.dirname(at))
        return backup

    def _put(self, temporary: bytes, path: bytes, mine: Identity | None) -> bytes | None:
        """Puts a file at `path`. What is in the way leaves in the same step in which the file
        comes, so that no other job's file is overwritten, even one that came this moment. Returns
        where that went."""
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(FileExistsError):
                rename_to_free(temporary, path)
                return None
            if not os.path.isdir(path) or os.path.islink(path):
                replaced = self._replace(temporary, path, mine)
            else:
                replaced = back_up(path, path)
                rename_to_free(temporary, path)
            return replaced
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def _replace(self, temporary: bytes, path: bytes, mine: Identity | None) -> bytes | None:
        old = self._old()
        os.rename(temporary, old)
        backup = None
        try:
            exchanged = exchange(old, path)
            if not exchanged:
                if mine is None or not _is(path, mine):
                    backup = back_up(path, path)
                os.rename(old, path)
        except OSError:
            with contextlib.suppress(OSError):
                rename_to_free(old, temporary)
            raise
        return self._dispose(old, path, mine) if exchanged else backup

    def _take_away(self, path: bytes, mine: Identity | None) -> bytes | None:
        """Frees a name: removes what is ours, backs up what is not. Returns where that went."""
        if mine is None:
            return back_up(path, path)
        old = self._old()
        os.rename(path, old)
        return self._dispose(old, path, mine)

    def _dispose(self, old: bytes, path: bytes, mine: Identity | None) -> bytes | None:
        """Removes what left `path` for `old` if it is ours, else backs it up beside `path`."""
        if mine is not None and _is(old, mine):
            os.unlink(old)
            return None
        return back_up(old, path)


def name_together(pairs: Sequence[tuple[bytes, bytes]], ended: Any) -> list[Identity]:
    """Renames files to free names in their order, as many as it can before one fails; returns the
    identities of those. ended: as place_files has it."""
    paths = b"".join(b"%s\0%s\0" % pair for pair in pairs)
    found, error = ffi.new("struct fan_identity[]", len(pairs)), ffi.new("int32_t *")
    count = lib.fan_name_files(paths, len(pairs), found, ended, error)
    return [Identity(each.inode, each.size, each.mtime_ns) for each in found[0:count]]


def _is(path: bytes, identity: Identity) -> bool:
    found = os.lstat(path)
    return Identity.of(found) == identity and not stat.S_ISDIR(found.st_mode)


def _real(directory: bytes) -> bytes:
    """Returns the path of a directory without links."""
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return os.readlink(b"/proc/self/fd/%d" % fd)
    finally:
        os.close(fd)


def _sync(directories: Sequence[bytes]) -> list[OSError]:
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
