"""The output directory. Gives files, links and directories their names, and never replaces, or
writes into, anything that FanStore did not put there.

Files arrive complete and synced, under a name in `.fanstore-<job>` in the output directory. All
paths are relative to the output directory; all calls wait for its file system."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from fanstore.outputs.files.placing import (
    back_up,
    exchange,
    real_directory,
    rename_to_free,
    sync_directories,
)
from fanstore.outputs.model.entries import Identity
from fanstore.outputs.tree.placed import Copy, Header, Source

_SYNC_EACH_S = 1.0
_SYNCED_TOGETHER = 128
_NOT_THERE = (FileNotFoundError, NotADirectoryError)


class Target:
    """The output directory of a job. It is created, if its parent exists, when the first output is
    placed. backups: messages about files that were in the way, with their new names. take: returns
    whether another rank placed the file with this name and identity, and gives it to this rank."""

    def __init__(self, header: Header) -> None:
        self.root = os.fsencode(header.root)
        self.scratch = b".fanstore-" + header.job_id.encode()
        self.backups: list[str] = []
        self.take: Callable[[bytes, Identity], bool] = lambda name, identity: False
        self._mode = 0o777 & ~header.umask
        # Makes names differ from those of an earlier process.
        self._own = os.urandom(4).hex().encode()
        self._numbers = itertools.count(1)
        self._unsynced: set[bytes] = set()
        self._synced_s = time.monotonic()

    def path(self, name: bytes) -> bytes:
        """Returns the absolute path of a name."""
        return b"%s/%s" % (self.root, name) if name else self.root

    def look(self, name: bytes) -> os.stat_result | None:
        """Returns lstat(2) of a name, if no link is on the way to it; None if nothing is there."""
        try:
            return os.lstat(self.path(name)) if self._is_reached(os.path.dirname(name)) else None
        except _NOT_THERE:
            return None

    def new_name(self) -> bytes:
        """Returns a free name in the scratch directory, which it creates if needed."""
        return self.new_names(1)[0]

    def new_names(self, count: int) -> list[bytes]:
        """Returns several free names in the scratch directory, which it creates if needed."""
        self._make_directory(b"")
        with suppress(FileExistsError):
            os.mkdir(self.path(self.scratch), 0o700)
        start = b"%s/%s" % (self.scratch, self._own)
        return [b"%s.%d.part" % (start, next(self._numbers)) for _ in range(count)]

    def takes_link(self, path: bytes) -> bool:
        """Returns whether a file of the node can be hard-linked here instead of being copied: links
        work, and neither the file nor a new file here has an ACL of its own."""
        with suppress(OSError):
            name = self.path(self.new_name())
            os.link(path, name, follow_symlinks=False)
            os.unlink(name)
            names = [*os.listxattr(path), *os.listxattr(self.path(self.scratch))]
            return not any(name.startswith("system.posix_acl_") for name in names)
        return False

    def put(self, temporary: bytes, name: bytes, mine: Copy | None) -> Copy | None:
        """Gives the file at `temporary` its name. If `mine` was placed there before, or a file of
        another rank that gives it, moves that to `temporary` and returns it; renames anything else
        that was there to a backup."""
        self.make_parents(os.path.dirname(name))
        old, new = self.path(temporary), self.path(name)
        self.changed(name)
        # Looked at before the exchange: if this process is killed, the user's file must not be in
        # the scratch directory.
        while (found := self._there(old, new)) is not None:
            placed = self._placed(found, name, mine)
            if placed is not None:
                break
            again = self.look(name)  # asking other ranks takes a while
            if again is not None and Identity.of(again) == Identity.of(found):
                self._back_up(new, new)
        else:
            return None
        if not exchange(old, new):
            self._put_in_steps(old, new)
        # Another rank may have placed its file there meanwhile.
        placed = self._placed(os.lstat(old), name, placed)
        if placed is None:
            self._back_up(old, new)
        return placed

    def _there(self, old: bytes, new: bytes) -> os.stat_result | None:
        """Gives a file its new name if that is free, and returns None; otherwise returns lstat(2)
        of what is there."""
        while True:
            with suppress(FileExistsError):
                rename_to_free(old, new)
                return None
            with suppress(FileNotFoundError):  # another rank has just removed it
                return os.lstat(new)

    def _put_in_steps(self, old: bytes, new: bytes) -> None:
        """Does the work of `exchange` on a file system that cannot do that."""
        aside = self.path(self.new_name())
        os.rename(new, aside)
        rename_to_free(old, new)
        os.rename(aside, old)

    def _placed(self, found: os.stat_result, name: bytes, mine: Copy | None) -> Copy | None:
        """Returns a file that was found under a name if FanStore placed it: `mine`, or another
        rank's, which then belongs to this rank."""
        if mine is not None and _is(found, mine):
            return mine
        given = not stat.S_ISDIR(found.st_mode) and self.take(name, Identity.of(found))
        return Copy(Source(0, 0, 0, 0), Identity.of(found)) if given else None

    def set_aside(self, name: bytes, mine: Copy, aside: bytes) -> bool:
        """Moves a placed file to a name in the scratch directory. Leaves any other file alone.
        Returns whether it moved the file."""
        found = self.look(name)
        if found is None or not _is(found, mine):
            return False
        with suppress(*_NOT_THERE):
            os.rename(self.path(name), self.path(aside))
            self.changed(name)
            if _is(os.lstat(self.path(aside)), mine):
                return True
            self._give_back(name, self.path(aside))
        return False

    def _give_back(self, name: bytes, aside: bytes) -> None:
        """Gives a file its name back that was moved aside because it had just replaced another."""
        try:
            rename_to_free(aside, self.path(name))
        except FileExistsError:
            if self._placed(os.lstat(aside), name, None) is None:
                self._back_up(aside, self.path(name))
            else:
                os.unlink(aside)

    def remove(self, name: bytes, mine: Copy) -> None:
        """Removes a placed file; leaves any other file alone."""
        aside = name
        if not name.startswith(self.scratch + b"/"):
            aside = self.new_name()
            if not self.set_aside(name, mine, aside):
                return
        with suppress(FileNotFoundError):
            os.unlink(self.path(aside))

    def make(self, name: bytes, mode: int) -> None:
        """Creates a directory, or uses an existing one."""
        self.make_parents(os.path.dirname(name))
        if self._make_directory(name):
            os.chmod(self.path(name), stat.S_IMODE(mode) | 0o700)

    def remove_directory(self, name: bytes) -> bool:
        """Removes the directory `name` if it is empty. Returns False if it is not empty, else True:
        also if nothing is there, or no directory."""
        try:
            found = self.look(name)
            if found is not None and stat.S_ISDIR(found.st_mode):
                os.rmdir(self.path(name))
                self.changed(name)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            if error.errno != errno.ENOENT:
                raise
        return True

    def finish_directory(self, name: bytes, found: os.stat_result) -> None:
        """Sets the mode and times of a directory, after the last file was put into it."""
        there = self.look(name)
        if there is None:  # another rank has removed its own directory of this name
            self.make(name, found.st_mode)
            there = self.look(name)
        if there is not None and stat.S_ISDIR(there.st_mode):
            os.utime(self.path(name), ns=(found.st_atime_ns, found.st_mtime_ns))
            with suppress(PermissionError):
                os.chown(self.path(name), found.st_uid, found.st_gid)
            os.chmod(self.path(name), stat.S_IMODE(found.st_mode))

    def make_parents(self, name: bytes) -> None:
        """Creates a directory and its parents, like `mkdir -p`. Renames files that are in the way
        to backups; also links, because they may lead anywhere."""
        if self._is_reached(name):
            return
        self._make_directory(b"")
        at = b""
        for part in name.split(b"/") if name else []:
            at = os.path.join(at, part)
            self._make_directory(at)

    def _make_directory(self, name: bytes) -> bool:
        """Creates one directory. Returns whether it is new. Renames a file that is in the way to a
        backup."""
        path = self.path(name)
        for _ in range(2):
            try:
                os.mkdir(path, self._mode)
                os.chmod(path, self._mode)
                self.changed(name)
                return True
            except FileExistsError:
                if os.path.isdir(path) and (not name or not os.path.islink(path)):
                    return False
                if not name:  # the output directory itself may be anything
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
                self._back_up(path, path)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    def _is_reached(self, directory: bytes) -> bool:
        """Returns whether the way from the root to a directory contains no link."""
        try:
            root, real = real_directory(self.root), real_directory(self.path(directory))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise
            return False
        return real == os.path.normpath(os.path.join(root, directory))

    def _back_up(self, path: bytes, beside: bytes) -> None:
        backup = back_up(path, beside)
        self.backups.append(os.fsdecode(os.path.relpath(backup, self.root)))

    def changed(self, name: bytes) -> None:
        """Records that a name was added to its directory or removed, so that `sync` syncs the
        directory: one by one, that takes as long as everything else. `sync` retries failed ones at
        the end."""
        self._unsynced.add(os.path.dirname(name))
        if time.monotonic() > self._synced_s + _SYNC_EACH_S:
            with suppress(OSError):
                self.sync()

    def sync(self) -> None:
        """Syncs the directories of all names recorded so far. Raises OSError."""
        self._synced_s = time.monotonic()
        while together := list(itertools.islice(self._unsynced, _SYNCED_TOGETHER)):
            failed = sync_directories([self.path(each) for each in together])
            if failed:
                raise failed[0]
            self._unsynced.difference_update(together)

    def clear_scratch(self, kept: Sequence[bytes] = ()) -> None:
        """Removes unfinished files, and the scratch directory if it is empty then."""
        with suppress(OSError):
            for name in os.listdir(self.path(self.scratch)):
                if os.path.join(self.scratch, name) not in kept:
                    with suppress(OSError):
                        os.unlink(self.path(os.path.join(self.scratch, name)))
        with suppress(OSError):
            os.rmdir(self.path(self.scratch))


def _is(found: os.stat_result, copy: Copy) -> bool:
    return Identity.of(found) == copy.identity and not stat.S_ISDIR(found.st_mode)
