"""The names in a dataset: looking them up through links, listing, walking."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fanstore.dataset import Dataset

ROOT = 0
_LINKS_MAX = 40  # as path_resolution(7)


def normal(path: bytes) -> bytes:
    """A relpath in normal form: no empty and no "." component, ".." by the letter."""
    parts: list[bytes] = []
    for part in path.split(b"/"):
        if part == b".." and parts:
            parts.pop()
        elif part not in (b"", b".", b".."):
            parts.append(part)
    return b"/".join(parts)


def error(number: int, path: bytes) -> OSError:
    """Returns (does not raise) the exception for an error number about a path."""
    return OSError(number, os.strerror(number), os.fsdecode(path))


class IndexTree:
    """The files, directories and links of an index. Paths are relative to its root, with ".." by
    the letter; absolute ones, and links that lead out of it, are not there."""

    def __init__(self, index: Dataset) -> None:
        self._index = index
        self._has_links = index.header.symlink_count > 0

    def find(self, path: bytes, follow: bool = True) -> int:
        """Returns the record id of a path. follow: a link at its end, too; those before it always
        are. Raises FileNotFoundError, NotADirectoryError, or OSError (ELOOP)."""
        if path.startswith(b"/"):
            raise error(errno.ENOENT, path)
        at = normal(path)
        for _ in range(_LINKS_MAX):
            found, rest = self._reach(at, path)
            if not self.is_link(found) or (not rest and not follow):
                return found
            target = self._index.target(found)
            if target.startswith(b"/"):
                raise error(errno.ENOENT, path)
            parent = self._index.relpath(self._index.record(found).parent)
            at = self._inside(b"/".join([parent, target, rest]), path)
        raise error(errno.ELOOP, path)

    def _reach(self, at: bytes, path: bytes) -> tuple[int, bytes]:
        """Returns the record of a path, and b""; or that of the first link on the way, and what
        comes behind it."""
        try:
            return self._index.lookup(at), b""
        except FileNotFoundError:
            pass
        parts = at.split(b"/")
        for count in range(1, len(parts)):
            try:
                found = self._index.lookup(b"/".join(parts[:count]))
            except FileNotFoundError:
                break
            if self.is_link(found):
                return found, b"/".join(parts[count:])
            if not self.is_directory(found):
                raise error(errno.ENOTDIR, path)
        raise error(errno.ENOENT, path)

    def _inside(self, at: bytes, path: bytes) -> bytes:
        """Returns the normal form of a path that does not leave the root."""
        depth = 0
        for part in at.split(b"/"):
            depth += -1 if part == b".." else part not in (b"", b".")
            if depth < 0:
                raise error(errno.ENOENT, path)
        return normal(at)

    def mode(self, record: int) -> int:
        """Returns the mode of a record, with its type."""
        return int(self._index.record(record).mode)

    def is_link(self, record: int) -> bool:
        """Whether a record is a symbolic link."""
        return self._has_links and stat.S_ISLNK(self.mode(record))

    def is_directory(self, record: int) -> bool:
        """Whether a record is a directory."""
        return stat.S_ISDIR(self.mode(record))

    def target(self, record: int) -> bytes:
        """Returns the target of a symbolic link. Raises DatasetDamaged."""
        return self._index.target(record)

    def directory(self, path: bytes) -> int:
        """Returns the record id of a directory. Raises as `find` does, and NotADirectoryError."""
        found = self.find(path)
        if not self.is_directory(found):
            raise error(errno.ENOTDIR, path)
        return found

    def entries(self, directory: int) -> Iterator[tuple[bytes, int]]:
        """Yields the names in a directory, sorted, and their record ids."""
        for child in self._index.children(directory):
            yield self._index.basename(child), child

    def stat(self, record: int) -> os.stat_result:
        """Returns what stat(2) says: the record id as inode number, the time of the last change as
        all times, 4,096 bytes for a directory."""
        row = self._index.record(record)
        uid, gid = self._index.owner(record)
        size = 4096 if stat.S_ISDIR(row.mode) else row.logical_size
        when = (row.mtime_ns // 10**9,) * 3
        kinds = ("st_atime", "st_mtime", "st_ctime")
        finer: dict[str, float] = {kind: row.mtime_ns / 1e9 for kind in kinds}
        finer.update({f"{kind}_ns": row.mtime_ns for kind in kinds})
        finer.update(st_blksize=4096, st_blocks=-(-size // 512), st_rdev=0)
        return os.stat_result((row.mode, record, 0, row.nlink, uid, gid, size, *when), finer)
