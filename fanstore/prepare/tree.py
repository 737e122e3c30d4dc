"""The entries of a source, as arrays in the order of the index's records.

Entry 0 is the root. The children of a directory follow each other, sorted by the bytes of their
names, and come after the children of every directory before it (breadth first)."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fanstore._native import check, dtype_of, ffi, lib
from fanstore.arrays import np
from fanstore.prepare.room import ArrayRoom

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
    """One entry of a source that is listed and not scanned. Two paths with the same Item are hard
    links. ordinal: its position in the source."""

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


class SourceTree:
    """The entries (struct fan_scan_entry) of a source.

    names: the bytes of their names. first: for each entry, the first entry of the same file:
    itself, or another hard link. ordinals: the position of each entry in the best order for
    reading; None if that is the order of the entries. room: makes arrays as long as the tree."""

    def __init__(
        self,
        entries: NDArray[Any],
        names: NDArray[np.uint8],
        first: NDArray[np.int64],
        ordinals: NDArray[np.int64] | None,
        room: ArrayRoom,
    ) -> None:
        self.entries = entries
        self.names = names
        self.first = first
        self.ordinals = ordinals
        self.room = room

    def __len__(self) -> int:
        return len(self.entries)

    def ordinal(self, number: int) -> int:
        """Returns the position of an entry in the best order for reading content."""
        return number if self.ordinals is None else int(self.ordinals[number])

    def pieces(self) -> Iterator[slice]:
        """Yields slices that together cover all entries."""
        return self.room.pieces(len(self))

    def kinds(self, part: slice | NDArray[np.int64]) -> NDArray[np.uint32]:
        """Returns the file types (S_IFMT bits of the modes) of some entries."""
        return np.asarray(self.entries["mode"][part] & _FORMAT, np.uint32)

    def count_of(self, kind: int) -> int:
        """Returns the number of entries of a file type."""
        return sum(int(np.count_nonzero(self.kinds(part) == kind)) for part in self.pieces())

    def path(self, number: int) -> bytes:
        """Returns the relpath of an entry; b"" for the root."""
        return self.paths_of(np.array([number]))[0]

    def paths_of(self, ids: NDArray[np.int64]) -> list[bytes]:
        """Returns the relpath of each of these entries."""
        lengths, joined = self.joined_paths(ids)
        ends = np.cumsum(lengths).tolist()
        whole = bytes(joined)
        return [whole[start:end] for start, end in itertools.pairwise([0, *ends])]

    def joined_paths(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.uint64], bytearray]:
        """Returns the lengths of the relpaths of `ids`, and the relpaths joined. Use it for very
        many entries: `paths_of` makes a Python object for each."""
        entries = ffi.from_buffer("struct fan_scan_entry[]", self.entries)
        numbers = ffi.from_buffer("uint64_t[]", ids.astype("<u8"))
        lengths = np.zeros(len(ids), np.uint64)
        measured = ffi.from_buffer("uint64_t[]", lengths)
        joined = bytearray(lib.fan_paths_measure(entries, numbers, len(ids), measured))
        names = ffi.from_buffer("char[]", self.names)
        room = ffi.from_buffer("char[]", joined)
        lib.fan_paths_join(entries, names, numbers, len(ids), measured, room)
        return lengths, joined

    def target(self, number: int) -> bytes:
        """Returns the target of a symbolic link."""
        row = self.entries[number]
        start = int(row["target_offset"])
        return self.names[start : start + int(row["target_bytes"])].tobytes()

    @cached_property
    def content(self) -> NDArray[np.int64]:
        """The entries whose content is stored, in reading order: files that are not empty, each
        once."""
        ids = self._selected(self._is_content)
        if self.ordinals is None:
            return ids
        return ids[np.argsort(self.ordinals[ids], kind="stable")]

    def _is_content(self, part: slice) -> NDArray[np.bool_]:
        stored: NDArray[np.bool_] = self.first[part] == np.arange(part.start, part.stop)
        stored &= (self.kinds(part) == stat.S_IFREG) & (self.entries["size"][part] > 0)
        return stored

    @cached_property
    def links(self) -> NDArray[np.int64]:
        """The numbers of all symbolic links, in ascending order."""
        return self._selected(lambda part: self.kinds(part) == stat.S_IFLNK)

    def _selected(self, chosen: Callable[[slice], NDArray[np.bool_]]) -> NDArray[np.int64]:
        """Returns the entries for which `chosen` returns True, in ascending order."""
        count = sum(int(np.count_nonzero(chosen(part))) for part in self.pieces())
        out = self.room.zeros(count, np.int64)
        end = 0
        for part in self.pieces() if count else ():
            found = np.flatnonzero(chosen(part)) + part.start
            out[end : end + len(found)] = found
            end += len(found)
        return out

    def problems(self) -> list[tuple[int, str]]:
        """Returns the entries that cannot be packed, each with the reason."""
        found = []
        for part in self.pieces():
            bad = (self.entries["error"][part] != 0) | np.isin(self.kinds(part), list(_KINDS))
            found += [(number, self._reason(number)) for number in np.flatnonzero(bad) + part.start]
        return [(int(number), why) for number, why in found]

    def _reason(self, number: int) -> str:
        error = int(self.entries["error"][number])
        return os.strerror(error) if error else _KINDS[int(self.entries["mode"][number]) & _FORMAT]

    def keep_mask(self, dropped: Iterable[int]) -> NDArray[np.bool_]:
        """Returns a mask of the entries that stay without `dropped`: it leaves out these entries,
        all entries below them, and the other names (hard links) of their files."""
        keep = self.room.zeros(len(self), bool)
        gone = self.room.zeros(len(self), bool)
        gone[list(dropped)] = True
        for part in self.pieces():
            gone[part] |= gone[self.first[part]]
        gone[0] = False
        for part in self.pieces():  # parents come first
            parents = self.entries["parent"][part]
            while True:
                below = gone[part] | gone[parents]
                if (below == gone[part]).all():
                    break
                gone[part] = below
            keep[part] = ~gone[part]
        return keep

    def filtered(self, keep: NDArray[np.bool_]) -> SourceTree:
        """Returns a tree of only the kept entries, with new numbers."""
        number = self.room.zeros(len(self), np.int64)
        end = 0
        for part in self.pieces():
            number[part] = np.cumsum(keep[part]) + (end - 1)
            end = int(number[part.stop - 1]) + 1
        entries = self.room.kept(self.entries, keep)
        first = self.room.kept(self.first, keep)
        for part in self.room.pieces(len(entries)):
            entries["parent"][part] = number[entries["parent"][part]]
            first[part] = number[first[part]]
        ordinals = None if self.ordinals is None else self.ordinals[keep]
        return SourceTree(entries, self.names, first, ordinals, self.room)


def _same_files(entries: NDArray[Any], room: ArrayRoom) -> NDArray[np.int64]:
    """Returns for each entry the first entry that is the same file (device and inode)."""
    first = room.zeros(len(entries), np.int64)
    check(lib.fan_same_files(
        ffi.from_buffer("struct fan_scan_entry[]", entries), len(entries), room.table_slots,
        ffi.cast("uint64_t *", ffi.from_buffer(first)),
    ))  # fmt: skip
    return first


def scan_directory(
    root_fd: int, room: ArrayRoom, show: Callable[[int], None] = lambda _: None
) -> SourceTree:
    """Returns the tree of everything below an open directory. Unreadable entries have `error` set.
    show: called with the number of entries found so far."""
    new = ffi.new("struct fan_scan *")
    rc = lib.fan_scan_init(new, root_fd, room.fd, room.heap_bytes)
    scan = ffi.gc(new, lib.fan_scan_fini)
    room.check(rc)
    while room.check(lib.fan_scan_step(scan, _SCAN_STEP)):
        show(scan.entry_count)  # between steps, Python's signal handlers run
    dtype = dtype_of("struct fan_scan_entry")
    entries = room.borrow(scan, scan.entries, scan.entry_count, dtype)
    names = room.borrow(scan, scan.names, scan.names_bytes, np.uint8)
    return SourceTree(entries, names, _same_files(entries, room), None, room)


def _breadth_first(paths: Iterable[bytes]) -> list[tuple[int, bytes, bytes]]:
    """Sorts paths breadth first, the order of a SourceTree. Returns (number of the parent, name,
    path) of each."""
    below: dict[bytes, list[bytes]] = {}
    for path in paths:
        if path:
            parent, _, name = path.rpartition(b"/")
            below.setdefault(parent, []).append(name)
    order: list[tuple[int, bytes, bytes]] = [(0, b"", b"")]
    for number, (_, _, path) in enumerate(order):  # the list grows meanwhile
        start = path + b"/" if path else b""
        order.extend((number, name, start + name) for name in sorted(below.get(path, ())))
    return order


def add_parents(items: dict[bytes, Item], path: bytes, first: Item) -> str | None:
    """Adds the missing directories above a path to the items, with mode 0755 and the owner and time
    of `first`. Returns None, or the reason if a parent is no directory."""
    missing = Item(stat.S_IFDIR | 0o755, 0, first.mtime_ns, first.uid, first.gid)
    at = 0 if path else -1
    while at >= 0:
        parent = items.setdefault(path[:at], missing)
        if not stat.S_ISDIR(parent.mode):
            return "lies behind what is not a directory"
        at = path.find(b"/", at + 1)
    return None


def tree_of(items: Mapping[bytes, Item]) -> SourceTree:
    """Returns the tree of listed items. The parent directory of each item must be an item too, and
    so must the root b""."""
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
    return SourceTree(entries, np.frombuffer(blob, np.uint8), first, ordinals, ArrayRoom())
