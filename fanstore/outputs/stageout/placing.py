"""The output directory: putting files, directories and links where they belong, and never over what
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

from fanstore.outputs.model.entries import Attr
from fanstore.outputs.stageout.journal import Header, Identity, Name
from fanstore.outputs.stageout.rename_safely import back_up, exchange, rename_to_free

_ATTEMPTS = 100
_SYNC_EACH_S = 1.0


class ParentInTheWay(OSError):
    """Something that is no directory stands where a parent belongs: this job's own, perhaps, and
    about to go."""


class OutputDirectory:
    """root: made, if its parent is there, when the first output is placed."""

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
        """That of the job of a journal."""
        return OutputDirectory(header.root, header.folders, header.job_id, header.umask)

    def path(self, name: Name) -> bytes:
        """Where that name's file belongs."""
        return os.path.join(self.root, self._folders[name.mount], name.path)

    def shown(self, name: Name) -> str:
        """The same for people: relative to the output directory."""
        return os.fsdecode(os.path.join(self._folders[name.mount], name.path))

    @property
    def shown_root(self) -> str:
        """The output directory, for people."""
        return os.fsdecode(self.root)

    def relative(self, path: bytes) -> str:
        """The same of a path in it."""
        return os.fsdecode(os.path.relpath(path, self.root))

    def scratch(self, object_id: int) -> bytes:
        """The name for an object's copy while it is made; its directory is made."""
        self._make_scratch()
        return self.scratch_path(object_id)

    def scratch_path(self, object_id: int) -> bytes:
        """That name."""
        return os.path.join(self._scratch, b"%x.part" % object_id)

    def place_file(
        self, temporary: bytes, name: Name, mine: Identity | None, force: bool = True
    ) -> tuple[Identity, bytes | None]:
        """Gives a whole file its name; `mine` is what it may replace. Its identity there, and where
        something else went that was in the way.

        force: also in the way of its parents. ParentInTheWay otherwise."""
        path = self.path(name)
        try:
            aside = self._make_parents(name, force)
            identity = Identity.of(os.lstat(temporary))
            backup = self._put(temporary, path, mine) or aside
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self._changed(path)
        return identity, backup

    def place_link(
        self, target: bytes, name: Name, object_id: int, mine: Identity | None, force: bool = True
    ) -> tuple[Identity, bytes | None]:
        """The same for a symbolic link."""
        temporary = self.scratch(object_id)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        os.symlink(target, temporary)
        return self.place_file(temporary, name, mine, force)

    def place_directory(
        self, name: Name, mode: int, mine: Identity | None, force: bool = True
    ) -> tuple[bool, bytes | None]:
        """Makes a directory where none is. Whether it was made; where something else went."""
        path = self.path(name)
        backup = self._make_parents(name, force)
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
        """Removes a file or link that is ours; what else is there stays."""
        path = self.path(name)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if self._is_reached(path) and _is(path, mine):
                self._take_away(path, mine)

    def remove_directory(self, name: Name) -> bool:
        """Removes a directory if nothing is in it; false if something is."""
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
        """A directory's mode; so that its owner can make names in it until the end, see `seal`."""
        path = self.path(name)
        with contextlib.suppress(FileNotFoundError):
            if self._is_reached(path) and not os.path.islink(path):
                os.chmod(path, stat.S_IMODE(mode) | 0o700)

    def seal(self, name: Name, mode: int, mtime_ns: int) -> None:
        """A directory's exact mode and time."""
        path = self.path(name)
        with contextlib.suppress(FileNotFoundError):
            if self._is_reached(path) and not os.path.islink(path):
                os.utime(path, ns=(mtime_ns, mtime_ns))
                os.chmod(path, stat.S_IMODE(mode))

    def change_file(self, name: Name, attr: Attr, mine: Identity) -> Identity | None:
        """New attributes of a file that is ours; its identity afterwards. None: it is not."""
        path = self.path(name)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if self._is_reached(path) and _is(path, mine):
                apply_attr(path, attr)
                return Identity.of(os.lstat(path))
        return None

    def sync(self) -> None:
        """Makes the names that were given last."""
        self._synced_s = time.monotonic()
        for directory in list(self._unsynced):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # it went meanwhile
                _sync(directory)
            self._unsynced.discard(directory)

    def _changed(self, path: bytes) -> None:
        """There is a new name. Directories are synced together, after a while: one by one that
        takes as long as all else. What fails is tried again by whoever calls `sync` at the end."""
        self._unsynced.add(os.path.dirname(path))
        if time.monotonic() > self._synced_s + _SYNC_EACH_S:
            with contextlib.suppress(OSError):
                self.sync()

    def close(self) -> None:
        """Removes the scratch directory if nothing is in it."""
        with contextlib.suppress(OSError):
            self.sync()
        with contextlib.suppress(OSError):
            os.rmdir(self._scratch)

    def clear_scratch(self) -> None:
        """Removes unfinished copies of a job that is dead, and the directory if that is all."""
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
        self._make_root()
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._scratch, 0o700)

    def _old(self) -> bytes:
        """A name for what leaves its own for a moment. It is no `.part`: as long as it is not known
        whose it is, nobody removes it."""
        self._make_scratch()
        return os.path.join(self._scratch, b"%d.%d.old" % (os.getpid(), next(self._numbers)))

    def _is_reached(self, path: bytes) -> bool:
        """Whether no link leads elsewhere on the way from the root to a path."""
        parent = os.path.dirname(path)
        try:
            root, real = _real(self.root), _real(parent)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            return False
        return real == os.path.normpath(os.path.join(root, os.path.relpath(parent, self.root)))

    def _make_parents(self, name: Name, force: bool) -> bytes | None:
        """Directories of inputs, which nobody placed, are made as mkdir(1) would. Where something
        else went that was in the way, as links are: they may lead anywhere."""
        path = self.path(name)
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
        """What is in the way leaves in the same step in which the file comes, so that no other
        job's file is overwritten, even if it came this moment."""
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
        """Frees a name: removes what is ours, keeps what is not. Where that went."""
        if mine is None:
            return back_up(path, path)
        old = self._old()
        os.rename(path, old)
        return self._dispose(old, path, mine)

    def _dispose(self, old: bytes, path: bytes, mine: Identity | None) -> bytes | None:
        """What left `path` for `old` is removed if it is ours, else kept beside it."""
        if mine is not None and _is(old, mine):
            os.unlink(old)
            return None
        return back_up(old, path)


def _is(path: bytes, identity: Identity) -> bool:
    found = os.lstat(path)
    return Identity.of(found) == identity and not stat.S_ISDIR(found.st_mode)


def _real(directory: bytes) -> bytes:
    """Its path without links."""
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return os.readlink(b"/proc/self/fd/%d" % fd)
    finally:
        os.close(fd)


def apply_attr(path: bytes, attr: Attr) -> None:
    """Owner (where we may), mode and times of a file."""
    with contextlib.suppress(PermissionError):
        os.chown(path, attr.uid, attr.gid, follow_symlinks=False)
    os.chmod(path, stat.S_IMODE(attr.mode))
    os.utime(path, ns=(attr.atime_ns, attr.mtime_ns))


def _sync(directory: bytes) -> None:
    """Makes names last; file systems that have nothing to sync say EINVAL."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)
