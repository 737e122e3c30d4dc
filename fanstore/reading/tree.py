"""Looks up files, directories and links of a dataset by path, in its index."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from fanstore.dataset import Dataset

ROOT = 0
_LINKS_MAX = 40  # the limit in path_resolution(7)


def normal(path: bytes) -> bytes:
    """Returns the path in normal form: empty and "." components are dropped, and ".." removes the
    component before it without following links."""
    parts: list[bytes] = []
    for part in path.split(b"/"):
        if part == b".." and parts:
            parts.pop()
        elif part not in (b"", b".", b".."):
            parts.append(part)
    return b"/".join(parts)


def error(number: int, path: bytes) -> OSError:
    """Returns the exception for an errno about a path; does not raise it."""
    return OSError(number, os.strerror(number), os.fsdecode(path))


class IndexTree:
    """The files, directories and links of an index. Paths are relative to its root; ".." removes
    the component before it. Absolute paths, and links that lead out of the root, do not exist."""

    def __init__(self, index: Dataset) -> None:
        self._index = index
        self._has_links = index.header.symlink_count > 0

    def find(self, path: bytes, follow: bool = True) -> int:
        """Returns the record id of a path. follow: also follow a link at its end; links before the
        end are always followed. Raises FileNotFoundError, NotADirectoryError, OSError (ELOOP)."""
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
        """Follows a path from the record of `at`. Returns the record of the path and b""; if a link
        is on the way, the record of the first link and the rest of the path behind it."""
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
        """Returns the normal form of the path `at`. Raises FileNotFoundError, which names `path`,
        if `at` leaves the root."""
        depth = 0
        for part in at.split(b"/"):
            depth += -1 if part == b".." else part not in (b"", b".")
            if depth < 0:
                raise error(errno.ENOENT, path)
        return normal(at)

    def mode(self, record: int) -> int:
        """Returns the st_mode of a record: type and permissions."""
        return int(self._index.record(record).mode)

    def is_link(self, record: int) -> bool:
        """Returns whether a record is a symbolic link."""
        return self._has_links and stat.S_ISLNK(self.mode(record))

    def is_directory(self, record: int) -> bool:
        """Returns whether a record is a directory."""
        return stat.S_ISDIR(self.mode(record))

    def target(self, record: int) -> bytes:
        """Returns the target of a symbolic link. Raises DatasetDamaged."""
        return self._index.target(record)

    def directory(self, path: bytes) -> int:
        """Returns the record id of the directory `path`. Raises as `find` does, and
        NotADirectoryError."""
        found = self.find(path)
        if not self.is_directory(found):
            raise error(errno.ENOTDIR, path)
        return found

    def entries(self, directory: int) -> Iterator[tuple[bytes, int]]:
        """Yields the names in a directory, sorted, each with its record id."""
        for child in self._index.children(directory):
            yield self._index.basename(child), child

    def stat(self, record: int) -> os.stat_result:
        """Returns the stat result of a record. The inode number is the record id, all times are the
        time of the last change, and a directory has 4,096 bytes."""
        row = self._index.record(record)
        uid, gid = self._index.owner(record)
        size = 4096 if stat.S_ISDIR(row.mode) else row.logical_size
        when = (row.mtime_ns // 10**9,) * 3
        kinds = ("st_atime", "st_mtime", "st_ctime")
        finer: dict[str, float] = {kind: row.mtime_ns / 1e9 for kind in kinds}
        finer.update({f"{kind}_ns": row.mtime_ns for kind in kinds})
        finer.update(st_blksize=4096, st_blocks=-(-size // 512), st_rdev=0)
        return os.stat_result((row.mode, record, 0, row.nlink, uid, gid, size, *when), finer)


AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class Paths:
    """Methods of a dataset that need no content. A path is relative to the root, which is "" or
    "."; symbolic links are followed unless a method says otherwise, and the targets of links that
    lead out of the dataset do not exist."""

    _tree: IndexTree

    def _check_open(self) -> None:
        """Raises ValueError if the dataset is closed."""
        raise NotImplementedError

    def _found(self, path: AnyPath, follow: bool = True) -> int:
        self._check_open()
        return self._tree.find(os.fsencode(path), follow)

    def stat(self, path: AnyPath = "", follow: bool = True) -> os.stat_result:
        """Returns the result of os.stat for `path`; without `follow`, of os.lstat. Raises
        FileNotFoundError, NotADirectoryError, or OSError (ELOOP)."""
        return self._tree.stat(self._found(path, follow))

    def exists(self, path: AnyPath) -> bool:
        """Returns whether there is a file or directory at `path`."""
        try:
            self._found(path)
        except OSError:
            return False
        return True

    def isdir(self, path: AnyPath) -> bool:
        """Returns whether there is a directory at `path`."""
        try:
            return self._tree.is_directory(self._found(path))
        except OSError:
            return False

    def readlink(self, path: AnyPath) -> str:
        """Returns the target of the symbolic link at `path`. Raises as `stat` does, and OSError
        (EINVAL) if no link is there."""
        record = self._found(path, follow=False)
        if not self._tree.is_link(record):
            raise error(errno.EINVAL, os.fsencode(path))
        return os.fsdecode(self._tree.target(record))

    def listdir(self, path: AnyPath = "") -> list[str]:
        """Returns the names in the directory `path`, sorted as bytes. Raises as `stat` does, and
        NotADirectoryError."""
        self._check_open()
        directory = self._tree.directory(os.fsencode(path))
        return [os.fsdecode(name) for name, _ in self._tree.entries(directory)]

    def walk(self, top: AnyPath = "") -> Iterator[tuple[str, list[str], list[str]]]:
        """Walks from `top` down like os.walk: yields a directory's path, the names of directories
        in it, and the other names. Links are not followed. Raises as `listdir` does."""
        self._check_open()
        begin = self._tree.directory(os.fsencode(top))
        waiting = [(os.fsdecode(top).strip("/"), begin)]
        while waiting:
            path, directory = waiting.pop()
            below, names = {}, []
            for name, record in self._tree.entries(directory):
                if self._tree.is_directory(record):
                    below[os.fsdecode(name)] = record
                else:
                    names.append(os.fsdecode(name))
            folders = list(below)
            yield path, folders, names
            prefix = f"{path}/" if path else ""
            waiting += [(prefix + name, below[name]) for name in reversed(folders)]

    def glob(self, pattern: str) -> list[str]:
        """Returns the paths that match `pattern`, sorted: "*", "?" and "[...]" within a name, "**"
        for any number of directories. As with glob.glob, a name that begins with "." matches only a
        part that begins with "." too. Links are not followed."""
        self._check_open()
        return sorted(set(self._matching(pattern.strip("/").split("/"))))

    def _matching(self, pattern: list[str]) -> Iterator[str]:
        """Yields the paths that match a pattern, given as its parts; may yield a path more than
        once."""
        # directories, each with the parts of the pattern that names below it must match
        waiting = [(ROOT, "", pattern)]
        while waiting:
            directory, prefix, parts = waiting.pop()
            part, rest = parts[0], parts[1:]
            if part == "**":
                waiting.append((directory, prefix, rest or ["*"]))
            for name, record in self._tree.entries(directory):
                text = os.fsdecode(name)
                if text.startswith(".") and not part.startswith("."):
                    continue
                is_directory = self._tree.is_directory(record)
                if part == "**" and is_directory:
                    waiting.append((record, f"{prefix}{text}/", parts))
                elif part != "**" and fnmatchcase(text, part):
                    if not rest:
                        yield prefix + text
                    elif is_directory:
                        waiting.append((record, f"{prefix}{text}/", rest))
