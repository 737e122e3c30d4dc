"""Rebuilds the index from the packs alone.

A pack whose checksum matches the index counts as undamaged, so the content of every file is checked
before the checksum is written. The pack of a damaged file gets a wrong checksum on purpose:
whenever it is staged, its files are checked one by one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash

from fanstore._native import dtype_of, lib
from fanstore.arrays import np
from fanstore.dataset import (
    INDEX_NAME,
    Dataset,
    PackInfo,
    open_index,
    pack_name,
    read_pack_header,
    read_pack_trailer,
)
from fanstore.decoding import PackReader
from fanstore.errors import SHOWN_MAX, DatasetDamaged, FanstoreError
from fanstore.exit_codes import DAMAGED
from fanstore.prepare.index import build_index
from fanstore.prepare.listed import normal_form
from fanstore.prepare.packfile import Stored
from fanstore.prepare.tree import Item, SourceTree, tree_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_READ_BYTES = 4 << 20
_SIZE_MAX = (1 << 63) - 1
_ALL_ONES = (1 << 64) - 1


class PacksMissing(FanstoreError):
    """Packs are missing without which the index cannot be rebuilt."""

    exit_code = DAMAGED


@dataclass(frozen=True)
class Rebuilt:
    """The result of a rebuild. damaged: relpaths of the files whose content is damaged."""

    dataset_id: str
    index_bytes: int
    damaged: list[bytes]


def _checksum(path: Path) -> int:
    digest = xxhash.xxh3_64()
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
    return int(digest.intdigest())


def read_footer(path: Path) -> tuple[NDArray[Any], bytes]:
    """Reads and checks the footer of a pack. Returns its entries and its paths section. Raises
    DatasetDamaged or OSError."""
    trailer = read_pack_trailer(path)
    start = trailer.entries_offset
    with path.open("rb") as file:
        file.seek(start)
        raw = file.read(trailer.paths_offset - start + trailer.paths_bytes)
    if xxhash.xxh3_64_intdigest(raw) != trailer.footer_checksum:
        at = trailer.file_bytes - 24
        raise DatasetDamaged(path, "trailer.footer_checksum", at, "the checksum does not match")
    entries = np.frombuffer(raw, dtype_of("struct fan_pack_entry"), trailer.entry_count)
    return entries, raw[trailer.paths_offset - start :]


class _Collected:
    """Collects the entries of all packs, by path."""

    def __init__(self) -> None:
        self.items: dict[bytes, Item] = {}
        self.rows: dict[bytes, tuple[int, Any]] = {}
        self.logical: dict[int, int] = {}
        self._linked: dict[int, Item] = {}

    def add_footer(self, path: Path, pack: int, pack_count: int) -> None:
        """Adds the entries in the footer of one pack."""
        entries, paths = read_footer(path)
        for row in entries:
            holder = int(row["holder"]) - 1 if row["holder"] else pack
            if holder >= pack_count:
                raise DatasetDamaged(path, "entries", 0, f"there is no pack {holder}")
            self.logical[holder] = self.logical.get(holder, 0) + self._add(path, holder, row, paths)
            if self.logical[holder] > _SIZE_MAX:
                raise DatasetDamaged(path, "entries", 0, f"{self.logical[holder]} bytes of content")

    def describe(self, path: Path, pack: int, plan_id: bytes) -> PackInfo:
        """Returns the description of a pack for the index. Call it after the footers of all packs
        were added."""
        header, trailer = read_pack_header(path), read_pack_trailer(path)
        kept = lib.FAN_PACK_KEPT * (bytes(header.plan_id) != plan_id)
        return PackInfo(
            pack, trailer.file_bytes, _checksum(path), trailer.entry_count,
            self.logical.get(pack, 0), header.flags | kept,
        )  # fmt: skip

    def _add(self, path: Path, pack: int, row: Any, paths: bytes) -> int:
        """Adds one entry. Returns its logical bytes; 0 if another name of the file was added
        before."""
        relpath = _run(path, paths, int(row["path_offset"]), int(row["path_bytes"]))
        if relpath in self.items or normal_form(relpath) != relpath:
            raise DatasetDamaged(path, "entries", int(row["path_offset"]), "not a path, or twice")
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


def _arrays(tree: SourceTree, collected: _Collected) -> tuple[Stored, NDArray[np.int64]]:
    stored = Stored(len(tree), tree.room)
    packs = np.zeros(len(tree), np.int64)
    paths = tree.paths_of(np.arange(len(tree)))
    for number in np.flatnonzero(tree.kinds(slice(None)) == stat.S_IFREG).tolist():
        packs[number], row = collected.rows[paths[number]]
        stored.offset[number] = row["offset"]
        stored.stored_size[number] = row["stored_size"]
        stored.checksum[number] = row["checksum"]
        stored.codec[number] = row["codec"]
    return stored, packs


def _last_header(directory: Path) -> Any:
    """Returns the header of the last pack. Raises PacksMissing if the header states more packs than
    exist."""
    there = {path.name: path for path in directory.glob("pack-*.fsp")}
    if not there:
        raise PacksMissing(f"{directory}: there are no packs")
    header = read_pack_header(there[max(there)])
    names = map(pack_name, range(header.pack_count))
    missing = list(islice((name for name in names if name not in there), SHOWN_MAX))
    if missing:
        raise PacksMissing(f"{directory}: packs are missing:\n  " + "\n  ".join(missing))
    return header


def _value(header: Any, field: str) -> Any:
    """Returns a field of a C struct; an array as bytes."""
    found = getattr(header, field)
    return found if isinstance(found, int) else bytes(found)


def build_from_packs(index: Path, directory: Path, doubted: Set[int] = frozenset()) -> str:
    """Writes the index of the dataset whose packs are in `directory` to a new file, and returns the
    dataset id. The file has the same bytes as the original index. Packs in `doubted` get a wrong
    checksum.

    Raises DatasetDamaged, also if packs do not belong together; PacksMissing; OSError."""
    last = _last_header(directory)
    paths = [directory / pack_name(pack) for pack in range(last.pack_count)]
    for pack, path in enumerate(paths):
        _check_belongs(path, pack, last)
    collected = _Collected()
    for pack, path in enumerate(paths):
        if not last.flags & lib.FAN_PACK_CATALOGUE or path == paths[-1]:
            collected.add_footer(path, pack, len(paths))
    plan_id = bytes(last.plan_id)
    infos = []
    for pack, path in enumerate(paths):
        info = collected.describe(path, pack, plan_id)
        infos.append(replace(info, checksum=info.checksum ^ _ALL_ONES * (pack in doubted)))
    _check_parents(directory / pack_name(0), collected.items)
    tree = tree_of(collected.items)
    stored, packs = _arrays(tree, collected)
    return build_index(index, tree, stored, packs, infos, plan_id, last.block_bytes)


def _check_belongs(path: Path, pack: int, last: Any) -> None:
    """Raises DatasetDamaged if a pack belongs to another dataset than the last pack does. If the
    last pack has a catalogue, packs may be older than the last update."""
    header = read_pack_header(path)
    updated = last.flags & lib.FAN_PACK_CATALOGUE
    shared = ("block_bytes",) if updated else ("plan_id", "pack_count", "block_bytes")
    same = all(_value(header, field) == _value(last, field) for field in shared)
    if not same or header.pack != pack:
        raise DatasetDamaged(path, "header.plan_id", 16, "belongs to another dataset")


def _damaged_files(dataset: Dataset) -> dict[int, list[bytes]]:
    """Returns the damaged files of each pack."""
    found: dict[int, list[bytes]] = {}
    for pack in range(dataset.pack_count):
        with PackReader(dataset, dataset.pack_path(pack)) as reader:
            for record in dataset.records_of_pack(pack):
                if not reader.is_sound(record):
                    found.setdefault(pack, []).append(dataset.relpath(record))
    return found


@contextmanager
def _made(directory: Path, doubted: Set[int] = frozenset()) -> Iterator[tuple[Path, str]]:
    """Yields a new index, already on the disk under a temporary name, and the dataset id.
    Afterwards removes the file unless the caller renamed it."""
    fresh = directory / f".{INDEX_NAME}.{os.getpid()}"
    try:
        dataset_id = build_from_packs(fresh, directory, doubted)
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        yield fresh, dataset_id
    finally:
        fresh.unlink(missing_ok=True)


def rebuild_index(directory: Path) -> Rebuilt:
    """Rebuilds the index of a dataset from its packs, and replaces an existing index when the new
    one is complete. If nothing is damaged, the new index has the same bytes as the original.

    Raises DatasetDamaged (then nothing is changed), PacksMissing with the names of the packs, or
    OSError."""
    with _made(directory) as (fresh, dataset_id):
        with open_index(fresh, directory) as dataset:
            dataset.check_records()
            damaged = _damaged_files(dataset)
            index_bytes = dataset.header.file_bytes
        if not damaged:
            fresh.rename(directory / INDEX_NAME)
    if damaged:
        with _made(directory, damaged.keys()) as (fresh, dataset_id):
            fresh.rename(directory / INDEX_NAME)
    names = sorted(name for names in damaged.values() for name in names)
    return Rebuilt(dataset_id, index_bytes, names)


def _check_parents(path: Path, items: dict[bytes, Item]) -> None:
    for relpath in items:
        parent = items.get(relpath.rpartition(b"/")[0])
        if parent is None or not stat.S_ISDIR(parent.mode):
            raise DatasetDamaged(
                path, "entries", int(lib.FAN_PACK_HEADER_BYTES), "a directory is missing"
            )
