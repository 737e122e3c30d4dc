"""Updates a dataset: decides which packs stay and which files are packed again.

A file keeps its content if its path, size and modification time are unchanged. A pack stays,
through a hard link, if at least half of it is still in use; all other files go to new packs. The
footer of the last new pack holds a catalogue: the entries of the whole dataset."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore._native import lib
from fanstore.arrays import np
from fanstore.dataset import (
    NO_RECORD,
    PackInfo,
    are_files,
    open_dataset,
    pack_name,
    read_pack_trailer,
)
from fanstore.errors import UsageError
from fanstore.prepare.index import describe, is_described_by
from fanstore.prepare.packfile import Stored
from fanstore.prepare.plan import PackPlan, replicated, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.prepare.packfile import Footers
    from fanstore.prepare.tree import SourceTree

_CATALOGUE: int = lib.FAN_PACK_CATALOGUE
_KEPT: int = lib.FAN_PACK_KEPT
_MAP_THRESHOLD: int = lib.FAN_MAP_THRESHOLD_BYTES
_HUGE_THRESHOLD: int = lib.FAN_HUGE_THRESHOLD_BYTES
_HEADER_BYTES: int = lib.FAN_PACK_HEADER_BYTES
# A made-up mount prefix, because look-ups of many paths need one.
_PREFIX = b"/x"


class UpdatedDataset:
    """The dataset that is to be updated, locked against other updates. Close it when done.

    Raises UsageError if there is no dataset or another update runs; DatasetDamaged; OSError."""

    def __init__(self, directory: Path) -> None:
        if not os.path.lexists(directory):
            raise UsageError(f"{directory}: there is no dataset to update")
        self._directory = directory
        self._fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._lock()
            self.dataset = open_dataset(directory, verify=True)
        except BaseException:
            os.close(self._fd)
            raise
        try:
            self.dataset.check_records()
            for pack in range(self.dataset.pack_count):
                self.dataset.check_pack_header(pack)
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{self._directory}: another update of it is running") from None
        self.check_current()

    def check_current(self) -> None:
        """Raises UsageError if another dataset has replaced this one since it was opened."""
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(self._fd), os.stat(self._directory)):
                return
        raise UsageError(f"{self._directory}: was replaced by another program; nothing is changed")

    def close(self) -> None:
        """Closes the dataset and lets others update it."""
        self.dataset.close()
        os.close(self._fd)

    def take_over(self, packs: Sequence[int], directory: Path) -> None:
        """Puts packs into another directory: hard links, or copies if links fail."""
        for pack in packs:
            source, target = self.dataset.pack_path(pack), directory / pack_name(pack)
            try:
                os.link(source, target)
            except OSError:
                shutil.copyfile(source, target)

    @property
    def packs(self) -> list[PackInfo]:
        """The descriptions of all packs, from the index."""
        return [self.dataset.pack_info(pack) for pack in range(self.dataset.pack_count)]

    def infos(self, packs: Sequence[int], footers: Footers) -> dict[int, PackInfo]:
        """Returns the descriptions of the packs that stay, for the new index."""
        found = {}
        for pack in packs:
            info = self.dataset.pack_info(pack)
            size = footers.logical_bytes(pack)
            found[pack] = replace(info, logical_bytes=size, flags=info.flags | _KEPT)
        return found


def _ids_before(tree: SourceTree, base: UpdatedDataset) -> NDArray[np.int64]:
    """Returns for each entry of the tree the record with the same path, or -1."""
    before = tree.room.zeros(len(tree), np.int64)
    for part in tree.pieces():
        ids = np.arange(part.start, part.stop)
        paths = b"".join(_PREFIX + b"/" + path + b"\0" for path in tree.paths_of(ids))
        found = base.dataset.lookup_all(paths, _PREFIX, len(ids))
        before[part] = np.where(found == NO_RECORD, -1, found.astype(np.int64))
    return before


class Update:
    """Decides which parts of a dataset stay in an update to a tree.

    _before: for each entry, the record with the same path; _same: the record with the same content;
    -1 if there is none."""

    def __init__(self, tree: SourceTree, base: UpdatedDataset) -> None:
        self._tree = tree
        self.base = base
        self._before = _ids_before(tree, base)
        self._same = self._unchanged()

    def _rows(self, ids: NDArray[np.int64]) -> Any:
        """Returns the records with these ids; for -1, the root's record."""
        return self.base.dataset.records[np.maximum(ids, 0)]

    def _unchanged(self) -> NDArray[np.int64]:
        tree = self._tree
        same = tree.room.zeros(len(tree), np.int64)
        for part in tree.pieces():
            same[part] = -1
        for part in tree.pieces():
            before, entries = self._before[part], tree.entries[part]
            rows = self._rows(before)
            as_before = (
                (before >= 0) & (tree.kinds(part) == stat.S_IFREG)
                & are_files(rows)
                & (rows["logical_size"] == entries["size"])
                & (rows["mtime_ns"] == entries["mtime_ns"])
            )  # fmt: skip
            # reversed, so that a file's first unchanged name wins
            ids = np.flatnonzero(as_before)[::-1]
            first = tree.first[part][ids]
            fresh = same[first] < 0
            same[first[fresh]] = before[ids][fresh]
        for part in tree.pieces():
            same[part] = same[tree.first[part]]
        return same

    def is_new(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns for each of these entries whether its content must be packed."""
        return np.asarray(self._same[ids] < 0)

    def is_nothing(self) -> bool:
        """Returns whether readers would see no change."""
        tree, dataset = self._tree, self.base.dataset
        content = tree.content
        if len(tree) != len(dataset.records):
            return False
        if any(self.is_new(content[p]).any() for p in tree.room.pieces(len(content))):
            return False
        stored = Stored(len(tree), tree.room)
        self.fill(stored)
        packs = tree.room.zeros(len(tree), np.int64)
        for part in tree.pieces():
            same = self._same[part]
            packs[part] = np.where(same >= 0, self._rows(same)["pack"], 0)
        return is_described_by(describe(tree, stored, packs), dataset)

    def plan(self, partitions: int | None, globs: Sequence[str]) -> PackPlan:
        """Divides the files that must be packed among new packs. Files of packs for every node go
        to such packs again."""
        tree, dataset = self._tree, self.base.dataset
        content, room = tree.content, tree.room
        kept = self._kept_packs(content)
        stays = room.zeros(len(tree), bool)
        for ids in kept.values():
            stays[ids] = True
        written = room.zeros(len(content), bool)
        for part in room.pieces(len(content)):
            written[part] = ~stays[content[part]]
        flags = np.array([dataset.pack_info(p).everywhere for p in range(dataset.pack_count)])
        everywhere = replicated(tree, globs)
        for part in tree.pieces():
            before = self._before[part]
            rows = self._rows(before)
            there = (before >= 0) & (rows["logical_size"] > 0) & are_files(rows)
            everywhere[part] |= there & flags[rows["pack"]]
        return spread(tree, room.kept(content, written), everywhere, partitions, kept)

    def _kept_packs(self, content: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
        """Returns the packs that stay, and for each one the entries whose content it holds."""
        ids = content[self._same[content] >= 0]
        rows = self.base.dataset.records[self._same[ids]]
        sizes = rows["stored_size"].astype(np.int64)
        alignment = np.where(sizes >= _MAP_THRESHOLD, lib.FAN_MAP_ALIGN_BYTES, 64)
        used = (sizes + alignment - 1) // alignment * alignment
        huge = (rows["codec"] == lib.FAN_CODEC_STORE) & (sizes >= _HUGE_THRESHOLD)
        # counts the most padding that may precede such a file
        used[huge] += lib.FAN_HUGE_ALIGN_BYTES
        count = self.base.dataset.pack_count
        totals = np.zeros(count, np.int64)
        np.add.at(totals, rows["pack"], used)
        order = np.argsort(rows["pack"], kind="stable")
        ends = np.cumsum(np.bincount(rows["pack"], minlength=count))
        groups = np.split(ids[order], ends[:-1])
        return {
            pack: group
            for pack, group in enumerate(groups)
            if 0 < self._room(pack) <= 2 * int(totals[pack])
        }

    def _room(self, pack: int) -> int:
        """Returns the size that decides whether a pack stays: its data, and its catalogue if it has
        one."""
        dataset = self.base.dataset
        if dataset.pack_info(pack).flags & _CATALOGUE:
            return dataset.pack_info(pack).file_bytes - _HEADER_BYTES
        return int(read_pack_trailer(dataset.pack_path(pack)).entries_offset) - _HEADER_BYTES

    def fill(self, stored: Stored) -> None:
        """Sets the values in `stored` of the entries whose content is unchanged."""
        for part in self._tree.pieces():
            same = (self._same[part] >= 0) & (self._tree.entries["size"][part] > 0)
            ids = np.flatnonzero(same) + part.start
            rows = self._rows(self._same[ids])
            for field in ("offset", "stored_size", "checksum", "codec"):
                getattr(stored, field)[ids] = rows[field]
