"""Making the index again from the packs alone."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from fanstore._native import dtype_of, lib
from fanstore.dataset import PackInfo, pack_name, read_pack_header, read_pack_trailer
from fanstore.errors import DatasetDamaged
from fanstore.prepare.index import build_index
from fanstore.prepare.packer import Stored
from fanstore.prepare.tree import Item, Tree, tree_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_READ_BYTES = 4 << 20


def _checksum(path: Path) -> int:
    digest = xxhash.xxh3_64()
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
    return int(digest.intdigest())


def read_footer(path: Path) -> tuple[NDArray[Any], bytes]:
    """The entries of a pack and its paths section, checked. Raises DatasetDamaged or OSError."""
    trailer = read_pack_trailer(path)
    start = int(trailer["entries_offset"])
    with path.open("rb") as file:
        file.seek(start)
        raw = file.read(int(trailer["paths_offset"]) - start + int(trailer["paths_bytes"]))
    if xxhash.xxh3_64_intdigest(raw) != int(trailer["footer_checksum"]):
        at = int(trailer["file_bytes"]) - 24
        raise DatasetDamaged(path, "trailer.footer_checksum", at, "the checksum does not match")
    entries = np.frombuffer(raw, dtype_of("struct fan_pack_entry"), int(trailer["entry_count"]))
    return entries, raw[int(trailer["paths_offset"]) - start :]


class _Collected:
    """The entries of all packs, path by path."""

    def __init__(self) -> None:
        self.items: dict[bytes, Item] = {}
        self.rows: dict[bytes, tuple[int, Any]] = {}
        self._linked: dict[int, Item] = {}

    def add_pack(self, path: Path, pack: int) -> PackInfo:
        """Takes up the entries of one pack, and describes it."""
        header = read_pack_header(path)
        entries, paths = read_footer(path)
        size = path.stat().st_size
        logical = 0
        for row in entries:
            logical += self._add(path, pack, row, paths)
        return PackInfo(pack, size, _checksum(path), len(entries), logical, int(header["flags"]))

    def _add(self, path: Path, pack: int, row: Any, paths: bytes) -> int:
        """Takes up one entry; its logical bytes when its content was not counted yet."""
        relpath = _run(path, paths, int(row["path_offset"]), int(row["path_bytes"]))
        mode, size = int(row["mode"]), int(row["logical_size"])
        target = _run(path, paths, int(row["offset"]), size) if stat.S_ISLNK(mode) else b""
        item = Item(mode, size, int(row["mtime_ns"]), int(row["uid"]), int(row["gid"]), target)
        link = int(row["link_id"])
        known = self._linked.setdefault(link, item) if link else item
        self.items[relpath] = known
        self.rows[relpath] = (pack, row)
        return size if stat.S_ISREG(mode) and known is item else 0


def _run(path: Path, paths: bytes, offset: int, length: int) -> bytes:
    if offset + length > len(paths):
        raise DatasetDamaged(path, "entries", 0, "a path leaves the paths section")
    return paths[offset : offset + length]


def _arrays(tree: Tree, collected: _Collected) -> tuple[Stored, NDArray[np.int64]]:
    stored = Stored(len(tree))
    packs = np.zeros(len(tree), np.int64)
    for number in np.flatnonzero(tree.kinds == stat.S_IFREG).tolist():
        packs[number], row = collected.rows[tree.paths[number]]
        stored.offset[number] = row["offset"]
        stored.stored_size[number] = row["stored_size"]
        stored.checksum[number] = row["checksum"]
        stored.codec[number] = row["codec"]
    return stored, packs


def rebuild_index(directory: Path) -> tuple[bytearray, str]:
    """The index of the dataset whose packs are in `directory`, the same bytes as at first, and
    the dataset id. Raises DatasetDamaged, also when packs do not belong together, or OSError."""
    first = read_pack_header(directory / pack_name(0))
    collected = _Collected()
    infos = []
    for pack in range(int(first["pack_count"])):
        path = directory / pack_name(pack)
        header = read_pack_header(path)
        same = all(bytes(header[f]) == bytes(first[f]) for f in ("plan_id", "pack_count"))
        if not same or int(header["pack"]) != pack:
            raise DatasetDamaged(path, "header.plan_id", 16, "belongs to another dataset")
        infos.append(collected.add_pack(path, pack))
    _check_parents(directory / pack_name(0), collected.items)
    tree = tree_of(collected.items)
    stored, packs = _arrays(tree, collected)
    plan_id = bytes(first["plan_id"])
    return build_index(tree, stored, packs, infos, plan_id, int(first["block_bytes"]))


def _check_parents(path: Path, items: dict[bytes, Item]) -> None:
    for relpath in items:
        parent = items.get(relpath.rpartition(b"/")[0])
        if parent is None or not stat.S_ISDIR(parent.mode):
            raise DatasetDamaged(path, "entries", int(lib.FAN_PACK_HEADER_BYTES),
                                 "a directory is missing")
