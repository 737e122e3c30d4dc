"""A source that contains only the files of a list, and the directories above them."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from fanstore._native import ffi, lib
from fanstore.errors import UsageError
from fanstore.prepare.source import DirectorySource
from fanstore.prepare.tree import Item, SourceTree, tree_of

_TARGET_BYTES = 4096


def read_list(path: str, null: bool = False) -> list[bytes]:
    """Returns the paths in a list file (`-`: standard input). They are separated by NULs if the
    file has any or `null` is set, otherwise by newlines. Raises UsageError."""
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    separator = b"\0" if null or b"\0" in data else b"\n"
    return [entry for entry in data.split(separator) if entry]


def normal_form(path: bytes) -> bytes | None:
    """Returns a relative path without empty or "." components; None if the path is absolute or
    contains ".."."""
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    return None if path.startswith(b"/") or b".." in parts else b"/".join(parts)


class ListedSource(DirectorySource):
    """The entries of a directory that a list names. A listed directory is packed without the
    entries in it, unless they are listed too."""

    def __init__(self, path: str | os.PathLike[str], listed: list[bytes]) -> None:
        self._listed = listed
        self._inodes: dict[tuple[int, int], Item] = {}
        self.left_out: list[tuple[bytes, str]] = []
        super().__init__(path)

    def scan(self) -> SourceTree:
        items: dict[bytes, Item] = {}
        self._add(items, b"", b"")
        for entry in self._listed:
            path = normal_form(entry)
            if path is None:
                self.left_out.append((entry, "is not below the source directory"))
            else:
                self._add_with_parents(items, path)
        return tree_of(items)

    def _add_with_parents(self, items: dict[bytes, Item], path: bytes) -> None:
        at = path.find(b"/")
        while at >= 0:
            parent = self._add(items, path[:at], path)
            if parent is None:
                return
            if not stat.S_ISDIR(parent.mode):
                self.left_out.append((path, "lies behind what is not a directory"))
                return
            at = path.find(b"/", at + 1)
        self._add(items, path, path)

    def _add(self, items: dict[bytes, Item], path: bytes, listed: bytes) -> Item | None:
        """Adds `path`, the listed path or a directory above it. If its attributes cannot be read,
        records `listed` as left out and returns None."""
        if path in items:
            return items[path]
        entry = ffi.new("struct fan_scan_entry *")
        target = ffi.new("char[]", _TARGET_BYTES)
        error = lib.fan_scan_stat(self.root_fd, path, len(path), entry, target)
        if error < 0:
            self.left_out.append((listed, os.strerror(-error)))
            return None
        item = Item(
            entry.mode, entry.size, entry.mtime_ns, entry.uid, entry.gid,
            bytes(ffi.buffer(target, entry.target_bytes)), len(items), entry.ctime_ns,
            entry.dev, entry.ino, entry.nlink,
        )  # fmt: skip
        # Hard links to one file share one Item.
        known = self._inodes.setdefault((item.dev, item.ino), item) if item.nlink > 1 else item
        items[path] = known if stat.S_ISREG(item.mode) else item
        return items[path]


class FileSource(ListedSource):
    """One file, in a root directory that has its owner and time."""

    def __init__(self, path: Path) -> None:
        file = path.resolve()
        super().__init__(file.parent, [os.fsencode(file.name)])

    def scan(self) -> SourceTree:
        items: dict[bytes, Item] = {}
        (name,) = self._listed
        file = self._add(items, name, name) or Item(0)
        items[b""] = Item(stat.S_IFDIR | 0o755, 0, file.mtime_ns, file.uid, file.gid)
        return tree_of(items)
