"""The output trees of this rank, for all ranks.

A file that a program makes lies in the tree of the program's rank, at its path. The rank that has
the directory keeps the name. If that is another rank, it has a *pointer* at that name, which says
which rank has the file: a symbolic link for a file, a directory with a mode of its own for a
directory. A rank that makes something in another rank's directory has a *stand-in* of that
directory in its own tree.

- Everything in this rank's tree that is neither pointer nor stand-in belongs to this rank.
- The kernel of the rank that keeps a name decides who gets it: a pointer is made like any file.
- If a pointer leads to a rank that does not have the file, the name is being made, moved or removed
  at this moment, or was when its program was killed.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

from fanstore.outputs.files.files import change, is_written, open_unasked
from fanstore.outputs.files.placing import rename_to_free
from fanstore.outputs.model.entries import Attr, Changes, Entry, failure, joined
from fanstore.outputs.tree.shared import Shared
from fanstore.outputs.tree.walk import (
    COUNTERPART_MODE,
    KNOWN_MODE,
    LINK_PREFIX,
    POINTER_PREFIX,
    STAND_IN_MODE,
    WHOSE,
)

_TYPE_SHIFT = 12  # the shift from st_mode to d_type, as in IFTODT(3)


NOBODY = -1  # stands for an unknown rank
_POINTED_MAX = 4096


class Seen(NamedTuple):
    """The knowledge of this rank about a name: its own entry, or the rank that has one, or
    neither."""

    entry: Entry | None = None
    rank: int | None = None


class Listed(NamedTuple):
    """One name in a directory. type: as in readdir(3). rank: the rank to which the inode number
    belongs."""

    name: bytes
    type: int
    inode: int
    rank: int


class Trees:
    """The trees of this rank, one for each mount. All paths are relative to the mount, in normal
    form. Some methods may be called only on the rank that keeps the name, or that has the file, as
    the headings below say. All methods raise OSError."""

    def __init__(
        self,
        rank: int,
        roots: Sequence[bytes],
        scratch: bytes,
        shared: Shared,
        is_input: Callable[[int, bytes], bool],
    ) -> None:
        """scratch: a directory of the same file system, for files that no program may see yet.
        is_input: returns whether the path is in the dataset."""
        self.rank = rank
        self.moves = 0  # counts moves of stand-ins of other ranks' directories
        self._pointed: deque[tuple[int, bytes]] = deque(maxlen=_POINTED_MAX)
        self._roots = roots
        self._scratch = scratch
        self._shared = shared
        self._is_input = is_input
        self._numbers = itertools.count(1)

    def path(self, mount: int, path: bytes) -> bytes:
        """Returns the real path of a path in a mount."""
        return self._roots[mount] + b"/" + path if path else self._roots[mount]

    def _own(self, mount: int, path: bytes) -> bytes:
        """Returns the real path of an entry of this rank. Raises FileNotFoundError."""
        if self.look(mount, path).entry is None:
            raise failure(errno.ENOENT, path)
        return self.path(mount, path)

    def new_path(self) -> bytes:
        """Returns a free path in the scratch directory."""
        return b"%s/%d" % (self._scratch, next(self._numbers))

    # ---- looking ----

    def look(self, mount: int, path: bytes) -> Seen:
        """Returns what this rank knows about a name."""
        real = self.path(mount, path)
        try:
            found = os.lstat(real)
            if stat.S_ISLNK(found.st_mode):
                target = os.readlink(real)
                if target.startswith(POINTER_PREFIX):
                    return Seen(rank=int(target.removeprefix(POINTER_PREFIX)))
                target = target.removeprefix(LINK_PREFIX)
                attr = Attr.of(found)._replace(size=len(target))
                return Seen(Entry(self.rank, found.st_ino, attr, target))
            if stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == STAND_IN_MODE:
                with suppress(FileNotFoundError):  # otherwise a program gave it that mode
                    return Seen(rank=int(os.readlink(real + b"/" + WHOSE)))
        except (FileNotFoundError, NotADirectoryError):
            return Seen()
        return Seen(Entry(self.rank, found.st_ino, Attr.of(found)))

    def look_for(self, asker: int, mount: int, path: bytes) -> Seen:
        """Returns what this rank knows about a name, for another rank, which does not see a file
        that is being written."""
        seen = self.look(mount, path)
        entry = seen.entry
        if asker == self.rank or entry is None or not entry.is_file:
            return seen
        return Seen(entry._replace(hidden=self._shared.is_written(entry.inode)))

    def look_down(
        self, asker: int, mount: int, directory: bytes, names: Sequence[bytes]
    ) -> tuple[int, Seen]:
        """Follows names down from a directory as long as this rank has the directories. Returns the
        index of the last name that it looked at, and what it knows about that name."""
        self._note_visit(asker)
        path, seen = directory, Seen()
        for turn, name in enumerate(names):
            path = joined(path, name)
            seen = self.look_for(asker, mount, path)
            if seen.entry is None or not seen.entry.is_directory:
                return turn, seen
        return len(names) - 1, seen

    def _note_visit(self, asker: int) -> None:
        if asker != self.rank:
            self._shared.visit()

    def listing(
        self, asker: int, mount: int, path: bytes
    ) -> tuple[list[Listed], dict[int, list[bytes]]]:
        """Lists the outputs in a directory whose names this rank keeps: the entries that it has
        itself, and the other names by the rank that has them."""
        self._note_visit(asker)
        listed: list[Listed] = []
        of_ranks: dict[int, list[bytes]] = {}
        for name in self._names(mount, path):
            seen = self.look_for(asker, mount, joined(path, name))
            if seen.rank is not None:
                of_ranks.setdefault(seen.rank, []).append(name)
            elif seen.entry is not None and not seen.entry.hidden:
                listed.append(listed_as(name, seen.entry))
        return listed, of_ranks

    def _names(self, mount: int, path: bytes) -> list[bytes]:
        try:
            names = os.listdir(self.path(mount, path))
        except FileNotFoundError:
            if not self._is_input(mount, path):
                raise
            return []
        within = self._is_input(mount, path)
        return [
            name
            for name in names
            if name != WHOSE and not (within and self._is_input(mount, joined(path, name)))
        ]

    def present(
        self, asker: int, mount: int, directory: bytes, names: Sequence[bytes]
    ) -> list[Listed]:
        """Lists those of the names that this rank has."""
        seen = [(name, self.look_for(asker, mount, joined(directory, name))) for name in names]
        return [
            listed_as(name, each.entry)
            for name, each in seen
            if each.entry is not None and not each.entry.hidden
        ]

    # ---- for the rank that keeps a name ----

    def know(self, mount: int, directory: bytes) -> None:
        """Records that all ranks now look for outputs in a directory of the dataset, so that this
        rank's programs may make names there without asking."""
        self._stand_in(mount, directory)
        os.chmod(self.path(mount, directory), KNOWN_MODE)

    def claim(self, mount: int, path: bytes, rank: int, is_directory: bool) -> None:
        """Makes a pointer to a rank. Raises FileExistsError if the name exists."""
        self._note_visit(rank)
        real = self.path(mount, path)
        with self._pointing(mount, path):
            if is_directory:
                self._put_stand_in(rank, real)
            else:
                os.symlink(b"%s%d" % (POINTER_PREFIX, rank), real)

    def _pointing(self, mount: int, path: bytes) -> AbstractContextManager[None]:
        """Records that a pointer is made at this name, within the block."""
        self._pointed.append((mount, path))
        return self._shared.pointing()

    def was_pointed(self, mount: int, path: bytes) -> bool:
        """Returns whether one of the last pointers was made at this name or below it."""
        below = path + b"/"
        return any(
            each == (mount, path) or (each[0] == mount and each[1].startswith(below))
            for each in self._pointed
        )

    def keeps(self, mount: int, path: bytes) -> bool:
        """Returns whether this rank keeps the names in the directory of a path."""
        try:
            return self._keeps_names_in(os.path.dirname(self.path(mount, path)))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def unclaim(self, mount: int, path: bytes, rank: int) -> None:
        """Removes a pointer to a rank, if there is one."""
        real = self.path(mount, path)
        if self.look(mount, path).rank != rank:
            return
        if os.path.islink(real):
            self._remove_pointer(real)
        else:
            self._remove_stand_in(real)

    def _remove_pointer(self, real: bytes) -> None:
        """Removes a pointer, but not a file that a program renames over it at the same time."""
        aside = self.new_path()
        try:
            os.rename(real, aside)
        except FileNotFoundError:
            return
        try:
            if not os.path.islink(aside) or not os.readlink(aside).startswith(POINTER_PREFIX):
                rename_to_free(aside, real)
                return
        except FileExistsError:  # a program has made the name anew since
            pass
        os.unlink(aside)

    def point(self, mount: int, path: bytes, rank: int, is_directory: bool) -> int | None:
        """Makes a name point to a rank, whatever it stood for before. Returns the rank that it
        pointed to before, or None."""
        before, real = self.look(mount, path), self.path(mount, path)
        with self._pointing(mount, path):
            if is_directory and before.rank is not None and os.path.isdir(real):
                os.unlink(real + b"/" + WHOSE)
                os.symlink(b"%d" % rank, real + b"/" + WHOSE)
            elif is_directory:
                self._put_stand_in(rank, real)
            else:
                pointer = self.new_path()
                os.symlink(b"%s%d" % (POINTER_PREFIX, rank), pointer)
                os.rename(pointer, real)
        return before.rank

    def _put_stand_in(self, rank: int, real: bytes) -> None:
        """Makes a stand-in of a rank's directory in one step. Raises FileExistsError."""
        made = self.new_path()
        os.mkdir(made, 0o700)
        os.symlink(b"%d" % rank, made + b"/" + WHOSE)
        os.chmod(made, STAND_IN_MODE)
        try:
            rename_to_free(made, real)
        except OSError:
            os.unlink(made + b"/" + WHOSE)
            os.rmdir(made)
            raise

    # ---- for the rank that has the file ----

    def stand_in(self, mount: int, path: bytes, rank: int) -> bytes:
        """Makes a stand-in of another rank's directory, and of its parents. Returns its real
        path."""
        if self.look(mount, path) == Seen():
            self._stand_in(mount, path, rank)
        return self.path(mount, path)

    def make_way(self, mount: int, path: bytes, keeper: int) -> bytes:
        """Makes the stand-ins that a new name of this rank needs. Returns its real path."""
        self._stand_in(mount, os.path.dirname(path), keeper)
        real = self.path(mount, path)
        # A stand-in of a directory that no longer exists.
        if self.look(mount, path).rank is not None:
            self._remove_stand_in(real)
        return real

    def _stand_in(self, mount: int, directory: bytes, rank: int = NOBODY) -> None:
        """Makes stand-ins of a directory and its parents. rank: the rank that has the directory.
        Raises FileNotFoundError if this rank keeps the name of one of them and has none: it was
        removed meanwhile, and at such a name a stand-in would be a pointer to nobody."""
        path = b""
        with suppress(FileExistsError):
            os.mkdir(self._roots[mount], 0o700)
        for name in directory.split(b"/") if directory else []:
            path = joined(path, name)
            real = self.path(mount, path)
            if os.path.lexists(real):
                continue
            if self._is_input(mount, path):
                with suppress(FileExistsError):
                    os.mkdir(real, 0o700)
                    os.chmod(real, COUNTERPART_MODE)
            else:
                if self._keeps_names_in(os.path.dirname(real)):
                    raise failure(errno.ENOENT, path)
                known = rank if path == directory else NOBODY
                with suppress(FileExistsError):
                    self._put_stand_in(known, real)

    @staticmethod
    def _keeps_names_in(real: bytes) -> bool:
        mode = stat.S_IMODE(os.lstat(real).st_mode)
        return mode not in (STAND_IN_MODE, COUNTERPART_MODE)

    def _remove_stand_in(self, real: bytes) -> None:
        """Removes a stand-in and the stand-ins in it. Keeps it if it contains anything else."""
        aside = self.new_path()
        try:
            os.rename(real, aside)
        except (FileNotFoundError, NotADirectoryError):
            return
        waiting, found = [aside], [aside]
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                        found.append(entry.path)
                    elif entry.name != WHOSE:
                        os.rename(aside, real)
                        raise failure(errno.ENOTEMPTY, real)
        for each in reversed(found):
            with suppress(FileNotFoundError):
                os.unlink(each + b"/" + WHOSE)
            os.rmdir(each)

    def unlink(self, mount: int, path: bytes) -> None:
        """Removes a file or link."""
        os.unlink(self._own(mount, path))
        self._shared.changed()

    def drop(self, mount: int, path: bytes) -> None:
        """Removes this rank's file at a name that another rank keeps and that no longer points
        here."""
        seen = self.look(mount, path).entry
        if seen is not None and not seen.is_directory and not self.keeps(mount, path):
            self.unlink(mount, path)

    def follow(self, mount: int, old: bytes, new: bytes) -> None:
        """Renames this rank's file to the name at which another rank's pointer to it is now."""
        entry = self.look(mount, old).entry
        if entry is not None and not entry.is_directory and self.look(mount, new).entry is None:
            self.move(mount, old, new)

    def rmdir(self, mount: int, path: bytes) -> None:
        """Removes an empty directory."""
        os.rmdir(self._own(mount, path))
        self._shared.changed()

    def move(self, mount: int, old: bytes, new: bytes) -> int | None:
        """Renames a file or directory. Returns the rank to which the new name pointed here before,
        or None."""
        place = self._own(mount, old)
        self._stand_in(mount, os.path.dirname(new))
        before, to = self.look(mount, new), self.path(mount, new)
        if before.rank is not None and os.path.isdir(to):
            self._remove_stand_in(to)
        with self._shared.moving():
            os.rename(place, to)
        return before.rank

    def moved(self, mount: int, old: bytes, new: bytes) -> None:
        """Renames the stand-in of a directory that another rank has renamed, if it exists."""
        if self.look(mount, old).rank is None:
            return
        self.moves += 1
        self._stand_in(mount, os.path.dirname(new))
        to = self.path(mount, new)
        if self.look(mount, new).rank is not None:
            self._remove_stand_in(to)
        with self._shared.moving():
            os.rename(self.path(mount, old), to)

    def change(self, mount: int, path: bytes, changes: Changes) -> None:
        """Changes attributes of a file or directory."""
        change(self._own(mount, path), changes)
        self._shared.changed()

    def read(self, mount: int, path: bytes, offset: int, size: int) -> bytes:
        """Returns bytes of a file, even if its mode does not allow reading. Raises ESTALE if it no
        longer exists."""
        if self.look(mount, path).entry is None:
            raise failure(errno.ESTALE, path)
        with open_unasked(self.path(mount, path)) as file:
            return os.pread(file.fileno(), size, offset)

    def give(
        self, mount: int, path: bytes, version: tuple[int, int, int, int], rank: int, keeper: int
    ) -> None:
        """Gives a file to another rank, which already has the bytes of this version. Raises ETXTBSY
        if a process writes it, ESTALE if it has changed since."""
        entry, real = self.look(mount, path).entry, self.path(mount, path)
        if entry is None or not entry.is_file:
            raise failure(errno.ESTALE, path)
        if is_written(real):
            raise failure(errno.ETXTBSY, path)
        found = self.look(mount, path).entry
        if found is None or found.version != version:
            raise failure(errno.ESTALE, path)
        if keeper == self.rank:
            self.point(mount, path, rank, False)
        else:
            os.unlink(real)
        self._shared.changed()


def listed_as(name: bytes, entry: Entry) -> Listed:
    """Returns the Listed for a name and its entry."""
    kind = entry.attr.mode >> _TYPE_SHIFT & 15
    return Listed(name, kind, entry.inode, entry.rank)
