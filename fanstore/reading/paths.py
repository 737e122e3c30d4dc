"""The tree of a dataset, as os and pathlib have it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Union

from fanstore.reading.tree import ROOT, IndexTree, error

AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class Paths:
    """Methods of a dataset that need no content. A path is relative to the root, which is "" or
    "."; symbolic links are followed where nothing else is said, and those that lead out of the
    dataset lead nowhere."""

    _tree: IndexTree

    def _check_open(self) -> None:
        """Raises ValueError once it is closed."""
        raise NotImplementedError

    def _found(self, path: AnyPath, follow: bool = True) -> int:
        self._check_open()
        return self._tree.find(os.fsencode(path), follow)

    def stat(self, path: AnyPath = "", follow: bool = True) -> os.stat_result:
        """Returns what os.stat says of `path`, or os.lstat without `follow`. Raises
        FileNotFoundError, NotADirectoryError, or OSError (ELOOP)."""
        return self._tree.stat(self._found(path, follow))

    def exists(self, path: AnyPath) -> bool:
        """Whether `path` is that of a file or directory."""
        try:
            self._found(path)
        except OSError:
            return False
        return True

    def isdir(self, path: AnyPath) -> bool:
        """Whether `path` is that of a directory."""
        try:
            return self._tree.is_directory(self._found(path))
        except OSError:
            return False

    def readlink(self, path: AnyPath) -> str:
        """Returns the target of the symbolic link at `path`. Raises as `stat` does, and OSError
        (EINVAL) for what is none."""
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
        """Yields, as os.walk does from `top` down, a directory's path, the names of directories
        in it, which the caller may change, and the other names. Links are not followed. Raises as
        `listdir` does."""
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
        for any directories. As with glob.glob, names that begin with "." match only where the
        pattern says so. Links are not followed."""
        self._check_open()
        return sorted(set(self._matching(pattern.strip("/").split("/"))))

    def _matching(self, pattern: list[str]) -> Iterator[str]:
        """Yields the paths that match the parts of a pattern, some of them more than once."""
        waiting = [(ROOT, "", pattern)]  # directories, and what is to match below them
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
