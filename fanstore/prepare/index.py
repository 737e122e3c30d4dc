"""Building the index, and the footers of the packs, from a tree and how its content is stored."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import xxhash

from fanstore._native import check, dtype_of, ffi, lib
from fanstore.arrays import np
from fanstore.dataset import PackInfo
from fanstore.errors import FanstoreError
from fanstore.prepare.plan import align_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.prepare.packer import Stored
    from fanstore.prepare.tree import Tree

_HEADER_BYTES: int = lib.FAN_INDEX_HEADER_BYTES
_ALIGN: int = lib.FAN_SECTION_ALIGN_BYTES
_COUNT_MAX = 65535


def intern_names(tree: Tree) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """The names section, each distinct run once, and where the runs are: the names of all
    entries first, then the targets of all symbolic links, in order."""
    entries = tree.entries
    links = tree.kinds == stat.S_IFLNK
    offsets = np.concatenate([entries["name_offset"], entries["target_offset"][links]])
    lengths = np.concatenate([entries["name_bytes"], entries["target_bytes"][links]])
    out = np.zeros(max(1, int(lengths.sum(dtype=np.int64))), np.uint8)
    places = np.zeros(len(offsets), np.uint64)
    source = tree.names if len(tree.names) else out
    used = check(lib.fan_intern(
        ffi.from_buffer("char[]", source), ffi.from_buffer("uint64_t[]", offsets),
        ffi.from_buffer("uint32_t[]", lengths), len(offsets), ffi.from_buffer("char[]", out),
        ffi.from_buffer("uint64_t[]", places),
    ))  # fmt: skip
    return out[:used], places


def owner_table(entries: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.uint16]]:
    """The distinct owners, rising, and the row of each entry's."""
    pairs = entries["uid"].astype(np.uint64) << np.uint64(32) | entries["gid"]
    distinct, rows = np.unique(pairs, return_inverse=True)
    if len(distinct) > _COUNT_MAX + 1:
        raise FanstoreError(f"{len(distinct)} distinct owners; at most 65536 can be recorded")
    table = np.zeros(len(distinct), dtype_of("struct fan_owner"))
    table["uid"] = distinct >> np.uint64(32)
    table["gid"] = distinct & np.uint64(0xFFFFFFFF)
    return table, rows.reshape(-1).astype(np.uint16)


def link_counts(tree: Tree) -> NDArray[np.uint16]:
    """st_nlink: of directories 2 and their subdirectories (1 where that is too large), of
    regular files the names in the dataset, at most 65535, else 1."""
    parents = tree.entries["parent"]
    directories = tree.kinds == stat.S_IFDIR
    below = directories.copy()
    below[0] = False
    counts = np.bincount(parents[below].astype(np.int64), minlength=len(tree)) + 2
    counts[counts > _COUNT_MAX] = 1
    names = np.bincount(tree.first, minlength=len(tree))[tree.first]
    return np.where(directories, counts, np.minimum(names, _COUNT_MAX)).astype(np.uint16)


def _children(tree: Tree) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The first child, 0 without any, and the number of children of each entry."""
    parents = tree.entries["parent"][1:].astype(np.int64)
    counts = np.bincount(parents, minlength=len(tree)).astype(np.uint64)
    first = np.searchsorted(parents, np.arange(len(tree))).astype(np.uint64) + np.uint64(1)
    first[counts == 0] = 0
    return first, counts


def build_records(
    tree: Tree, stored: Stored, packs: NDArray[np.int64], places: NDArray[np.uint64],
    owner_rows: NDArray[np.uint16],
) -> NDArray[Any]:  # fmt: skip
    """Returns the records section of the index."""
    entries = tree.entries
    count = len(tree)
    regular = tree.kinds == stat.S_IFREG
    directories = tree.kinds == stat.S_IFDIR
    links = tree.kinds == stat.S_IFLNK
    first, children = _children(tree)
    targets = np.zeros(count, np.uint64)
    targets[links] = places[count:]
    rows = np.zeros(count, dtype_of("struct fan_record"))
    rows["logical_size"] = np.where(
        links, entries["target_bytes"], np.where(regular, entries["size"], 0)
    )
    rows["stored_size"] = np.where(directories, children, stored.stored_size)
    rows["offset"] = np.where(directories, first, np.where(links, targets, stored.offset))
    rows["checksum"] = np.where(regular, stored.checksum, 0)
    rows["mtime_ns"] = entries["mtime_ns"]
    rows["name_offset"] = places[:count]
    rows["parent"] = entries["parent"]
    rows["pack"] = np.where(regular, packs, 0)
    rows["mode"] = entries["mode"]
    rows["owner"] = owner_rows
    rows["nlink"] = link_counts(tree)
    rows["name_bytes"] = entries["name_bytes"]
    rows["codec"] = np.where(regular, stored.codec, 0)
    return rows


def _slots(records: NDArray[Any], names: NDArray[np.uint8]) -> tuple[NDArray[np.uint64], int]:
    """Returns the hash table of all records, and its longest probe."""
    count = len(records)
    slots = np.zeros(max((3 * count + 1) // 2, count + 1), np.uint64)
    probe = ffi.new("uint32_t *")
    name_bytes = names if len(names) else np.zeros(1, np.uint8)
    check(lib.fan_core_fill_slots(
        ffi.from_buffer("struct fan_record[]", records), count,
        ffi.from_buffer("char[]", name_bytes), len(names),
        ffi.from_buffer("uint64_t[]", slots), len(slots), probe,
    ))  # fmt: skip
    return slots, int(probe[0])


def link_table(first: NDArray[np.int64]) -> NDArray[Any]:
    """Returns the further names of hard-linked files."""
    further = np.flatnonzero(first != np.arange(len(first)))
    table = np.zeros(len(further), dtype_of("struct fan_link"))
    table["record"] = further
    table["first"] = first[further]
    return table


def pack_table(infos: Sequence[PackInfo]) -> NDArray[Any]:
    """Returns the packs section of the index."""
    table = np.zeros(len(infos), dtype_of("struct fan_pack_info"))
    for row, info in zip(table, infos, strict=True):
        row["file_bytes"], row["checksum"] = info.file_bytes, info.checksum
        row["entry_count"], row["logical_bytes"] = info.entry_count, info.logical_bytes
        row["flags"] = info.flags
    return table


def _flags(records: NDArray[Any]) -> int:
    kinds = records["mode"] & 0o170000
    directories = records["mode"][kinds == stat.S_IFDIR]
    others = records["mode"][kinds != stat.S_IFLNK]
    flags = 0
    if ((directories & 0o111) == 0o111).all():
        flags |= lib.FAN_INDEX_ALL_SEARCHABLE
    if ((others & 0o444) == 0o444).all():
        flags |= lib.FAN_INDEX_ALL_READABLE
    if (kinds == stat.S_IFLNK).any():
        flags |= lib.FAN_INDEX_HAS_SYMLINKS
    return flags


def _place_sections(header: NDArray[Any], sections: Sequence[NDArray[Any]]) -> int:
    """Fills the section table in; returns the size of the file."""
    end = _HEADER_BYTES
    for kind, section in enumerate(sections):
        end = align_up(end, _ALIGN)
        header["sections"][0, kind] = (end, len(section), kind, section.itemsize)
        end += section.nbytes
    return align_up(end, _ALIGN)


def _totals(header: NDArray[Any], tree: Tree, records: NDArray[Any]) -> None:
    regular = tree.kinds == stat.S_IFREG
    once = regular & (tree.first == np.arange(len(tree)))
    header["record_count"] = len(records)
    header["file_count"] = regular.sum()
    header["directory_count"] = (tree.kinds == stat.S_IFDIR).sum()
    header["symlink_count"] = (tree.kinds == stat.S_IFLNK).sum()
    header["logical_bytes"] = records["logical_size"][once].sum()
    header["stored_bytes"] = records["stored_size"][once].sum()
    header["codec_mask"] = np.bitwise_or.reduce(1 << records["codec"][regular].astype(np.uint32))


def build_sections(
    tree: Tree, stored: Stored, packs: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.uint8], NDArray[Any], NDArray[Any]]:
    """The sections that say what the entries are: records, names, owners, links."""
    names, places = intern_names(tree)
    owners, owner_rows = owner_table(tree.entries)
    records = build_records(tree, stored, packs, places, owner_rows)
    return records, names, owners, link_table(tree.first)


def build_index(
    tree: Tree, stored: Stored, packs: NDArray[np.int64], infos: Sequence[PackInfo],
    plan_id: bytes, block_bytes: int,
) -> tuple[bytearray, str]:  # fmt: skip
    """The index file, and its dataset id. Needs the records to be in the order of a Tree."""
    if len(tree) >= 1 << 32:
        raise FanstoreError(f"{len(tree)} entries; at most {(1 << 32) - 1} can be indexed")
    records, names, owners, links = build_sections(tree, stored, packs)
    slots, max_probe = _slots(records, names)
    sections = [records, slots, names, owners, links, pack_table(infos)]
    header = np.zeros(1, dtype_of("struct fan_index_header"))
    header["magic"] = np.frombuffer(b"FANINDX\n", np.uint8)
    header["version"] = lib.FAN_FORMAT_VERSION
    header["layout_id"] = lib.FAN_INDEX_LAYOUT_ID
    header["plan_id"] = np.frombuffer(plan_id, np.uint8)
    header["pack_count"] = len(infos)
    header["block_bytes"] = block_bytes
    header["max_probe"] = max_probe
    header["flags"] = _flags(records)
    header["section_count"] = lib.FAN_SECTION_COUNT
    header["file_bytes"] = _place_sections(header, sections)
    _totals(header, tree, records)
    return _assemble(header, sections)


def _assemble(header: NDArray[Any], sections: Sequence[NDArray[Any]]) -> tuple[bytearray, str]:
    file = bytearray(int(header["file_bytes"][0]))
    for row, section in zip(header["sections"][0], sections, strict=True):
        offset = int(row["offset"])
        file[offset : offset + section.nbytes] = section.view(np.uint8).data
    with memoryview(file) as view, view[_HEADER_BYTES:] as body:
        header["body_checksum"] = xxhash.xxh3_64_intdigest(body)
        identity = xxhash.xxh3_128(header.tobytes())  # dataset_id and header_checksum still zero
        identity.update(body)
    header["dataset_id"] = np.frombuffer(identity.digest(), np.uint8)
    header["header_checksum"] = xxhash.xxh3_64_intdigest(header.tobytes()[:-8])
    file[:_HEADER_BYTES] = header.tobytes()
    return file, identity.hexdigest()
