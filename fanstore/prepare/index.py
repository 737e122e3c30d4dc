"""Builds the index from a tree and the positions of its content in the packs."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash

from fanstore._native import check, dtype_of, ffi, lib
from fanstore.arrays import np
from fanstore.dataset import PackInfo
from fanstore.errors import FanstoreError
from fanstore.prepare.lookups import Sections, fill_lookups, lookup_counts, place_sections

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.dataset import Dataset
    from fanstore.prepare.packfile import Stored
    from fanstore.prepare.tree import SourceTree

_HEADER_BYTES: int = lib.FAN_INDEX_HEADER_BYTES
_COUNT_MAX = 65535
_READ_BYTES = 64 << 20


class Names:
    """The names section, which has each distinct run of bytes once. `places` holds the offset of
    each run: first of the names of all entries, then of the targets of all symbolic links, in
    order."""

    def __init__(self, tree: SourceTree) -> None:
        self._kept = tree  # keeps the memory to which the pointers below point
        self._runs = ffi.new("struct fan_runs *")
        self._runs.entries = ffi.from_buffer("struct fan_scan_entry[]", tree.entries)
        self._runs.names = ffi.from_buffer("char[]", tree.names)
        self._runs.links = ffi.cast("uint64_t *", ffi.from_buffer(tree.links))
        self._runs.count, self._runs.link_count = len(tree), len(tree.links)
        self.places = tree.room.zeros(len(tree) + len(tree.links), np.uint64)
        self.bytes = check(lib.fan_intern(self._runs, tree.room.table_slots, self._places()))

    def _places(self) -> Any:
        return ffi.from_buffer("uint64_t[]", self.places)

    def write(self, section: NDArray[np.uint8]) -> None:
        """Writes the section's bytes to `section`, which has room for all of them."""
        lib.fan_intern_copy(self._runs, self._places(), ffi.from_buffer("char[]", section))


class Owners:
    """The distinct owners of a tree in ascending order, and for each entry the index of its
    owner."""

    def __init__(self, tree: SourceTree) -> None:
        self._entries = tree.entries
        self._pairs = np.zeros(0, np.uint64)
        for part in tree.pieces():
            self._pairs = np.union1d(self._pairs, self._of(part))
        if len(self._pairs) > _COUNT_MAX + 1:
            found = len(self._pairs)
            raise FanstoreError(f"{found} distinct owners; at most 65536 can be recorded")

    def _of(self, part: slice) -> NDArray[np.uint64]:
        entries = self._entries[part]
        pairs: NDArray[np.uint64] = entries["uid"].astype(np.uint64) << np.uint64(32)
        pairs |= entries["gid"]
        return pairs

    def rows(self, part: slice) -> NDArray[np.int64]:
        """Returns the index of each entry's owner in the table."""
        return np.searchsorted(self._pairs, self._of(part))

    def table(self) -> NDArray[Any]:
        """Returns the owners section of the index: a struct fan_owner for each owner."""
        table = np.zeros(len(self._pairs), dtype_of("struct fan_owner"))
        table["uid"] = self._pairs >> np.uint64(32)
        table["gid"] = self._pairs & np.uint64(0xFFFFFFFF)
        return table


class EntryFamily:
    """For each entry of a tree: its first child (0 if it has none), the number of its children, and
    st_nlink: for a directory 2 plus its subdirectories (1 if that is above 65535), for a regular
    file the number of its names in the dataset, for others 1."""

    def __init__(self, tree: SourceTree) -> None:
        room = tree.room
        self.first, self.count = (room.zeros(len(tree), np.uint64) for _ in range(2))
        self.nlink = room.zeros(len(tree), np.int64)
        for part in tree.pieces():
            directories = tree.kinds(part) == stat.S_IFDIR
            self.nlink[part] += np.where(directories, 2, 1)
            self._add_children(tree, part, directories)
            further = np.flatnonzero(tree.first[part] != np.arange(part.start, part.stop))
            np.add.at(self.nlink, tree.first[part][further], 1)
        for part in tree.pieces():  # all names of a file get the file's count
            directories = tree.kinds(part) == stat.S_IFDIR
            counts = self.nlink[tree.first[part]]
            counts[directories & (counts > _COUNT_MAX)] = 1
            self.nlink[part] = counts

    def _add_children(self, tree: SourceTree, part: slice, directories: NDArray[np.bool_]) -> None:
        """Counts the entries of `part` as children of their parents, whose numbers are in ascending
        order."""
        skipped = 1 if part.start == 0 else 0  # the root has no parent: it is no child
        parents = tree.entries["parent"][part][skipped:].astype(np.int64)
        if not len(parents):
            return
        base = int(parents[0])
        counts = np.bincount(parents - base)
        span = slice(base, base + len(counts))
        ids = np.searchsorted(parents, np.arange(span.start, span.stop)) + part.start + skipped
        fresh = (self.count[span] == 0) & (counts > 0)
        self.first[span] = np.where(fresh, ids.astype(np.uint64), self.first[span])
        self.count[span] += counts.astype(np.uint64)
        below = np.bincount(parents[directories[skipped:]] - base, minlength=len(counts))
        self.nlink[span] += below


class Records:
    """Makes the records section of the index, in pieces."""

    def __init__(
        self,
        tree: SourceTree,
        stored: Stored,
        packs: NDArray[np.int64],
        names: Names,
        owners: Owners,
    ) -> None:
        self._tree = tree
        self._stored = stored
        self._packs = packs
        self._names = names
        self._owners = owners
        self._family = EntryFamily(tree)

    def rows(self, part: slice) -> NDArray[Any]:
        """Returns the records of the entries in `part`."""
        tree, stored, family = self._tree, self._stored, self._family
        entries, kinds, places = tree.entries[part], tree.kinds(part), self._names.places
        regular, directories = kinds == stat.S_IFREG, kinds == stat.S_IFDIR
        links = kinds == stat.S_IFLNK
        targets = np.zeros(len(entries), np.uint64)
        before = len(tree) + int(np.searchsorted(tree.links, part.start))
        targets[links] = places[before : before + int(np.count_nonzero(links))]
        rows = np.zeros(len(entries), dtype_of("struct fan_record"))
        rows["logical_size"] = np.where(
            links, entries["target_bytes"], np.where(regular, entries["size"], 0)
        )
        rows["stored_size"] = np.where(directories, family.count[part], stored.stored_size[part])
        rows["offset"] = np.where(
            directories, family.first[part], np.where(links, targets, stored.offset[part])
        )
        has_sum = regular | directories if stored.is_planned else regular
        rows["checksum"] = np.where(has_sum, stored.checksum[part], 0)
        rows["mtime_ns"] = entries["mtime_ns"]
        rows["name_offset"] = places[part]
        rows["parent"] = entries["parent"]
        rows["pack"] = np.where(regular, self._packs[part], 0)
        rows["mode"] = entries["mode"]
        rows["owner"] = self._owners.rows(part)
        rows["nlink"] = np.minimum(family.nlink[part], _COUNT_MAX)
        rows["name_bytes"] = entries["name_bytes"]
        rows["codec"] = np.where(regular, stored.codec[part], 0)
        return rows


def link_table(tree: SourceTree) -> NDArray[Any]:
    """Returns the links section: the names of hard-linked files beyond the first."""

    def further(part: slice) -> NDArray[np.int64]:
        ids: NDArray[np.int64] = np.arange(part.start, part.stop)
        found: NDArray[np.int64] = ids[tree.first[part] != ids]
        return found

    count = sum(len(further(part)) for part in tree.pieces())
    table = tree.room.zeros(count, dtype_of("struct fan_link"))
    end = 0
    for part in tree.pieces() if count else ():
        ids = further(part)
        rows = table[end : end + len(ids)]
        rows["record"], rows["first"] = ids, tree.first[ids]
        end += len(ids)
    return table


def pack_table(infos: Sequence[PackInfo]) -> NDArray[Any]:
    """Returns the packs section of the index."""
    table = np.zeros(len(infos), dtype_of("struct fan_pack_info"))
    for row, info in zip(table, infos, strict=True):
        row["file_bytes"], row["checksum"] = info.file_bytes, info.checksum
        row["entry_count"], row["logical_bytes"] = info.entry_count, info.logical_bytes
        row["flags"] = info.flags
    return table


class _Totals:
    """Computes the header fields that are sums or maxima over all records."""

    def __init__(self, header: NDArray[Any]) -> None:
        self._header = header
        header["flags"] |= lib.FAN_INDEX_ALL_SEARCHABLE | lib.FAN_INDEX_ALL_READABLE

    def add(self, rows: NDArray[Any], is_first: NDArray[np.bool_]) -> None:
        """Adds some records to the sums. is_first: whether each is the first name of its file."""
        header, modes = self._header, rows["mode"]
        kinds = modes & 0o170000
        regular, links = kinds == stat.S_IFREG, kinds == stat.S_IFLNK
        once = rows[regular & is_first]
        for field, amount in (
            ("record_count", len(rows)),
            ("file_count", np.count_nonzero(regular)),
            ("directory_count", np.count_nonzero(kinds == stat.S_IFDIR)),
            ("symlink_count", np.count_nonzero(links)),
            ("logical_bytes", once["logical_size"].sum()),
            ("stored_bytes", once["stored_size"].sum()),
        ):
            header[field] += np.uint64(amount)
        header["codec_mask"] |= np.bitwise_or.reduce(
            np.uint32(1) << rows["codec"][regular].astype(np.uint32)
        )
        if ((modes[kinds == stat.S_IFDIR] & 0o111) != 0o111).any():
            header["flags"] &= ~np.uint32(lib.FAN_INDEX_ALL_SEARCHABLE)
        if ((modes[~links] & 0o444) != 0o444).any():
            header["flags"] &= ~np.uint32(lib.FAN_INDEX_ALL_READABLE)
        if links.any():
            header["flags"] |= lib.FAN_INDEX_HAS_SYMLINKS


@dataclass(frozen=True)
class IndexEntries:
    """The content of an index that describes entries: everything except the packs and the look-up
    tables."""

    tree: SourceTree
    names: Names
    owners: NDArray[Any]
    links: NDArray[Any]
    records: Records


def describe(tree: SourceTree, stored: Stored, packs: NDArray[np.int64]) -> IndexEntries:
    """Computes the parts of the index that describe the entries of a tree. packs: the pack of each
    entry."""
    names, owners = Names(tree), Owners(tree)
    records = Records(tree, stored, packs, names, owners)
    return IndexEntries(tree, names, owners.table(), link_table(tree), records)


def is_described_by(found: IndexEntries, dataset: Dataset) -> bool:
    """Returns whether the index of `dataset` already describes the entries in the same way."""
    tree = found.tree
    names = tree.room.zeros(found.names.bytes, np.uint8)
    if len(names):
        found.names.write(names)
    tables = {
        lib.FAN_SECTION_NAMES: names, lib.FAN_SECTION_OWNERS: found.owners,
        lib.FAN_SECTION_LINKS: found.links,
    }  # fmt: skip
    for kind, table in tables.items():
        there = dataset.section(kind)
        if len(there) != table.nbytes:
            return False
        if len(there) and not np.array_equal(table.view(np.uint8), np.frombuffer(there, np.uint8)):
            return False
    rows = found.records.rows
    return all(rows(p).tobytes() == dataset.records[p].tobytes() for p in tree.pieces())


def build_index(
    path: Path, tree: SourceTree, stored: Stored, packs: NDArray[np.int64],
    infos: Sequence[PackInfo], plan_id: bytes, block_bytes: int,
) -> str:  # fmt: skip
    """Writes the index to a new file; returns the dataset id. Entries must be in the order of a
    SourceTree. Raises FanstoreError if there are too many."""
    if len(tree) >= 1 << 32:
        raise FanstoreError(f"{len(tree)} entries; at most {(1 << 32) - 1} can be indexed")
    found = describe(tree, stored, packs)
    header = np.zeros(1, dtype_of("struct fan_index_header"))
    header["magic"] = np.frombuffer(b"FANINDX\n", np.uint8)
    header["version"] = lib.FAN_INDEX_VERSION
    header["layout_id"] = lib.FAN_INDEX_LAYOUT_ID
    header["plan_id"] = np.frombuffer(plan_id, np.uint8)
    header["pack_count"] = len(infos)
    header["block_bytes"] = block_bytes
    header["section_count"] = lib.FAN_SECTION_COUNT
    header["flags"] = lib.FAN_INDEX_PLANNED if stored.is_planned else 0
    return _write_index(path, header, found, infos)


def _write_index(
    path: Path, header: NDArray[Any], found: IndexEntries, infos: Sequence[PackInfo]
) -> str:
    """Writes an index file and returns the dataset id."""
    tables = {
        lib.FAN_SECTION_OWNERS: found.owners, lib.FAN_SECTION_LINKS: found.links,
        lib.FAN_SECTION_PACKS: pack_table(infos),
    }  # fmt: skip
    counts = {
        lib.FAN_SECTION_RECORDS: len(found.tree), lib.FAN_SECTION_NAMES: found.names.bytes,
        **{kind: len(table) for kind, table in tables.items()}, **lookup_counts(len(found.tree)),
    }  # fmt: skip
    header["file_bytes"] = place_sections(header[0], counts)
    with mapped_file(path, int(header["file_bytes"][0])) as file:
        _fill_body(file, header, found, tables)
        return _seal(file, header)


@contextmanager
def mapped_file(path: Path, size: int) -> Iterator[mmap.mmap]:
    """Yields a new file of `size` bytes, mapped into memory. Raises OSError if the disk is full."""
    with path.open("x+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            error.filename = os.fspath(path)
            raise
        mapping = mmap.mmap(file.fileno(), size)
        try:
            yield mapping
        finally:
            # the traceback of an exception may still hold an array of it
            with suppress(BufferError):
                mapping.close()


def _fill_body(
    file: mmap.mmap, header: NDArray[Any], found: IndexEntries, tables: Mapping[int, NDArray[Any]]
) -> None:
    """Fills all sections of the index, and the header fields about them."""
    sections = Sections(file, header[0])
    records = sections.array(lib.FAN_SECTION_RECORDS)
    totals = _Totals(header)
    for part in found.tree.pieces():
        rows = records[part] = found.records.rows(part)
        totals.add(rows, found.tree.first[part] == np.arange(part.start, part.stop))
        # drops the pages from this process; they stay in the page cache
        file.madvise(mmap.MADV_DONTNEED)
    names = sections.array(lib.FAN_SECTION_NAMES)
    if len(names):
        found.names.write(names)
    fill_lookups(found.tree.room, sections)
    for kind, table in tables.items():
        sections.array(kind)[:] = table


def _seal(file: mmap.mmap, header: NDArray[Any]) -> str:
    """Writes the header with its checksums. Returns the dataset id."""
    body = xxhash.xxh3_64()
    for data in _body(file):
        body.update(data)
    header["body_checksum"] = body.intdigest()
    # at this point dataset_id and header_checksum are 0
    identity = xxhash.xxh3_128(header.tobytes())
    for data in _body(file):
        identity.update(data)
    header["dataset_id"] = np.frombuffer(identity.digest(), np.uint8)
    header["header_checksum"] = xxhash.xxh3_64_intdigest(header.tobytes()[:-8])
    file[:_HEADER_BYTES] = header.tobytes()
    return identity.hexdigest()


def _body(file: mmap.mmap) -> Iterator[memoryview]:
    """Yields everything behind the header, in pieces."""
    for start in range(_HEADER_BYTES, len(file), _READ_BYTES):
        with memoryview(file) as view, view[start : start + _READ_BYTES] as piece:
            yield piece
        file.madvise(mmap.MADV_DONTNEED)
