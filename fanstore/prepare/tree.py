"""What a source holds, as arrays in the order of the index's records.

Entry 0 is the root. The children of a directory are contiguous and sorted by the bytes of their
names, and come after the children of every directory before it (breadth first).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fanstore._native import check, dtype_of, ffi, lib
from fanstore.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORMAT = 0o170000
_SCAN_STEP = 20000

_KINDS = {
    stat.S_IFIFO: "is a fifo",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a character device",
    stat.S_IFBLK: "is a block device",
}


@dataclass
class Item:
    """One thing of a source that is listed rather than scanned. Two paths with the same Item are
    hard links. `ordinal` is its place in the source."""

    mode: int
    size: int = 0
    mtime_ns: int = 0
    uid: int = 0
    gid: int = 0
    target: bytes = b""
    ordinal: int = 0
    ctime_ns: int = 0
    dev: int = 0
    ino: int = 0
    nlink: int = 1


class Tree:
    """The entries (struct fan_scan_entry), the bytes of their names, and which are one file.

    `first` gives for each entry the first name of the same file: itself where there is but one.
    `ordinals` is the order in which content is best read.
    """

    def __init__(
        self,
        entries: NDArray[Any],
        names: NDArray[np.uint8],
        first: NDArray[np.int64],
        ordinals: NDArray[np.int64],
    ) -> None:
        self.entries = entries
        self.names = names
        self.first = first
        self.ordinals = ordinals

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def kinds(self) -> NDArray[np.uint32]:
        """The file type bits of each entry's mode."""
        return np.asarray(self.entries["mode"] & _FORMAT, np.uint32)

    @cached_property
    def paths(self) -> list[bytes]:
        """The relpath of every entry; b"" is the root."""
        blob = self.names.tobytes()
        starts = self.entries["name_offset"].tolist()
        lengths = self.entries["name_bytes"].tolist()
        paths: list[bytes] = [b""]
        rows = zip(self.entries["parent"].tolist(), starts, lengths, strict=True)
        for number, (parent, start, length) in enumerate(rows):
            if number:
                name = blob[start : start + length]
                paths.append(paths[parent] + b"/" + name if parent else name)
        return paths

    def joined_paths(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.uint64], bytearray]:
        """The length of each of some entries' relpaths, and these one behind another: for very
        many entries, where `paths` would take a Python object each."""
        entries = ffi.from_buffer("struct fan_scan_entry[]", self.entries)
        numbers = ffi.from_buffer("uint64_t[]", ids.astype("<u8"))
        lengths = np.zeros(len(ids), np.uint64)
        measured = ffi.from_buffer("uint64_t[]", lengths)
        joined = bytearray(lib.fan_paths_measure(entries, numbers, len(ids), measured))
        names = ffi.from_buffer("char[]", self.names)
        room = ffi.from_buffer("char[]", joined)
        lib.fan_paths_join(entries, names, numbers, len(ids), measured, room)
        return lengths, joined

    @cached_property
    def targets(self) -> dict[int, bytes]:
        """The target of each symbolic link, by entry."""
        rows = self.entries
        found = {}
        for number in np.flatnonzero(self.kinds == stat.S_IFLNK).tolist():
            start = int(rows["target_offset"][number])
            found[number] = self.names[start : start + int(rows["target_bytes"][number])].tobytes()
        return found

    @cached_property
    def content(self) -> NDArray[np.int64]:
        """The entries whose content is stored, in reading order: not empty, each file once."""
        rows = np.arange(len(self))
        stored = (self.kinds == stat.S_IFREG) & (self.entries["size"] > 0) & (self.first == rows)
        ids = np.flatnonzero(stored)
        return ids[np.argsort(self.ordinals[ids], kind="stable")]

    def problems(self) -> list[tuple[int, str]]:
        """The entries that cannot be packed, and why."""
        bad = self.entries["error"] != 0
        for kind in _KINDS:
            bad |= self.kinds == kind
        return [(number, self._reason(number)) for number in np.flatnonzero(bad).tolist()]

    def _reason(self, number: int) -> str:
        error = int(self.entries["error"][number])
        return os.strerror(error) if error else _KINDS[int(self.kinds[number])]

    def keep_mask(self, dropped: Iterable[int]) -> NDArray[np.bool_]:
        """Which entries stay without these, what is below them, and their other names."""
        gone = np.zeros(len(self), bool)
        gone[list(dropped)] = True
        gone |= gone[self.first]
        gone[0] = False
        parents = self.entries["parent"]
        while True:
            below = gone | gone[parents]
            if (below == gone).all():
                return ~gone
            gone = below

    def filtered(self, keep: NDArray[np.bool_]) -> Tree:
        """The tree of the kept entries alone, renumbered."""
        number = np.cumsum(keep) - 1
        entries = self.entries[keep]
        entries["parent"] = number[entries["parent"]]
        return Tree(entries, self.names, number[self.first[keep]], self.ordinals[keep])


def _same_files(entries: NDArray[Any]) -> NDArray[np.int64]:
    """For each entry the first with the same device and inode, among regular files."""
    first = np.arange(len(entries))
    linked = np.flatnonzero(((entries["mode"] & _FORMAT) == stat.S_IFREG) & (entries["nlink"] > 1))
    if not len(linked):
        return first
    pairs = np.stack([entries["dev"][linked], entries["ino"][linked]], axis=1)
    _, where, group = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    first[linked] = linked[where[group.reshape(-1)]]
    return first


def scan_directory(root_fd: int) -> Tree:
    """Everything below an open directory. What cannot be read carries its error."""
    scan = ffi.new("struct fan_scan *")
    try:
        check(lib.fan_scan_init(scan, root_fd))
        while check(lib.fan_scan_step(scan, _SCAN_STEP)):
            pass  # a moment for Python's signal handlers
        size = ffi.sizeof("struct fan_scan_entry")
        raw = bytearray(ffi.buffer(scan.entries, scan.entry_count * size))
        entries = np.frombuffer(raw, dtype_of("struct fan_scan_entry"))
        names = np.frombuffer(bytearray(ffi.buffer(scan.names, scan.names_bytes)), np.uint8)
    finally:
        lib.fan_scan_fini(scan)
    return Tree(entries, names, _same_files(entries), np.arange(len(entries)))


def _breadth_first(paths: Iterable[bytes]) -> list[tuple[int, bytes, bytes]]:
    """(number of the parent, name, path) of each path in the order of a Tree."""
    below: dict[bytes, list[bytes]] = {}
    for path in paths:
        if path:
            parent, _, name = path.rpartition(b"/")
            below.setdefault(parent, []).append(name)
    order: list[tuple[int, bytes, bytes]] = [(0, b"", b"")]
    for number, (_, _, path) in enumerate(order):  # grows while it is walked
        start = path + b"/" if path else b""
        order.extend((number, name, start + name) for name in sorted(below.get(path, ())))
    return order


def add_parents(items: dict[bytes, Item], path: bytes, first: Item) -> str | None:
    """Adds the directories above a path that are not among the items, with mode 0755, and owner and
    time of the `first` item in them. Returns why that cannot be, or None."""
    missing = Item(stat.S_IFDIR | 0o755, 0, first.mtime_ns, first.uid, first.gid)
    at = 0 if path else -1
    while at >= 0:
        parent = items.setdefault(path[:at], missing)
        if not stat.S_ISDIR(parent.mode):
            return "lies behind what is not a directory"
        at = path.find(b"/", at + 1)
    return None


def tree_of(items: Mapping[bytes, Item]) -> Tree:
    """The tree of listed items. Every parent directory must be among them, b"" too."""
    order = _breadth_first(items)
    entries = np.zeros(len(order), dtype_of("struct fan_scan_entry"))
    blob = bytearray()
    seen: dict[int, int] = {}
    first = np.arange(len(order))
    ordinals = np.zeros(len(order), np.int64)
    for number, (parent, name, path) in enumerate(order):
        item = items[path]
        first[number] = seen.setdefault(id(item), number)
        ordinals[number] = item.ordinal
        entries[number] = (
            parent, len(blob), len(blob) + len(name), item.size, item.mtime_ns, item.ctime_ns,
            item.dev, item.ino, len(name), len(item.target), item.mode, item.uid, item.gid,
            item.nlink, 0, 0,
        )  # fmt: skip
        blob += name + item.target
    first[(entries["mode"] & _FORMAT) != stat.S_IFREG] = np.flatnonzero(
        (entries["mode"] & _FORMAT) != stat.S_IFREG
    )
    return Tree(entries, np.frombuffer(blob, np.uint8), first, ordinals)
