"""The footers of packs: what is needed to make the index again from the packs alone."""

from __future__ import annotations

import itertools
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanstore._native import dtype_of
from fanstore.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.prepare.packfile import Stored
    from fanstore.prepare.tree import Tree


class Footers:
    """Makes the footer of each pack of a tree. A `catalogue` is a pack whose footer is that of
    the whole dataset; without one, pack 0 has the entries that have no content."""

    def __init__(
        self, tree: Tree, stored: Stored, packs: NDArray[np.int64], catalogue: int | None = None
    ) -> None:
        self._tree = tree
        self._stored = stored
        self._catalogue = catalogue
        self._holders = packs
        self._packs = tree.room.zeros(len(tree), np.int64)
        self._link_ids = tree.room.zeros(len(tree), np.int64)
        # The least and the greatest pack of each piece of the tree.
        self._spans: list[tuple[slice, int, int]] = []
        for part in tree.pieces():
            content = (tree.kinds(part) == stat.S_IFREG) & (tree.entries["size"][part] > 0)
            found = np.where(content, packs[part], catalogue or 0)
            self._packs[part] = found
            self._spans.append((part, int(found.min()), int(found.max())))
            first, own = tree.first[part], np.arange(part.start, part.stop)
            further = first != own
            self._link_ids[own[further]] = self._link_ids[first[further]] = first[further] + 1

    def pieces(self, pack: int) -> Iterator[NDArray[np.int64]]:
        """The entries in the footer of a pack, some at a time."""
        whole = pack == self._catalogue
        for part, least, greatest in self._spans:
            if whole:
                yield np.arange(part.start, part.stop)
            elif least <= pack <= greatest:
                yield np.flatnonzero(self._packs[part] == pack) + part.start

    def footer(self, pack: int) -> Footer:
        """What is to be written behind the content of a pack."""
        count = paths_bytes = 0
        for ids in self.pieces(pack):
            count += len(ids)
            paths_bytes += int(self._path_bytes(ids).sum())
        targets_bytes = sum(
            int(self._tree.entries["target_bytes"][ids[self._is_link(ids)]].sum(dtype=np.int64))
            for ids in self.pieces(pack)
        )
        parts = itertools.chain(self._entries(pack, paths_bytes), self._paths(pack))
        return Footer(count, paths_bytes + targets_bytes, self.logical_bytes(pack), parts)

    def logical_bytes(self, pack: int) -> int:
        """The sizes of the files in a pack, hard-linked ones once."""
        total = 0
        for part, least, greatest in self._spans:
            if not least <= pack <= greatest:
                continue
            ids = np.flatnonzero(self._packs[part] == pack) + part.start
            once = (self._tree.kinds(ids) == stat.S_IFREG) & (self._tree.first[ids] == ids)
            total += int(self._tree.entries["size"][ids[once]].sum())
        return total

    def _is_link(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        links: NDArray[np.bool_] = self._tree.kinds(ids) == stat.S_IFLNK
        return links

    def _path_bytes(self, ids: NDArray[np.int64]) -> NDArray[np.uint64]:
        return self._tree.joined_paths(ids)[0]

    def _entries(self, pack: int, paths_bytes: int) -> Iterator[bytes]:
        """The entries. The section that they speak of has all paths, and then all targets."""
        tree, stored = self._tree, self._stored
        path_end, target_end = np.uint64(0), np.uint64(paths_bytes)
        for ids in self.pieces(pack):
            source = tree.entries[ids]
            regular, links = tree.kinds(ids) == stat.S_IFREG, self._is_link(ids)
            targets = np.where(links, source["target_bytes"], 0).astype(np.uint64)
            lengths = self._path_bytes(ids)
            path_ends, target_ends = np.cumsum(lengths) + path_end, np.cumsum(targets) + target_end
            rows = np.zeros(len(ids), dtype_of("struct fan_pack_entry"))
            rows["logical_size"] = np.where(regular, source["size"], targets)
            rows["stored_size"] = stored.stored_size[ids]
            rows["offset"] = np.where(links, target_ends - targets, stored.offset[ids])
            rows["checksum"] = np.where(regular, stored.checksum[ids], 0)
            rows["codec"] = stored.codec[ids]
            rows["link_id"] = self._link_ids[ids]
            rows["path_bytes"], rows["path_offset"] = lengths, path_ends - lengths
            for field in ("mtime_ns", "mode", "uid", "gid"):
                rows[field] = source[field]
            if pack == self._catalogue:
                rows["holder"] = np.where(regular, self._holders[ids] + 1, 0)
            if len(ids):
                path_end, target_end = path_ends[-1], target_ends[-1]
            yield rows.tobytes()

    def _paths(self, pack: int) -> Iterator[bytes | bytearray]:
        for ids in self.pieces(pack):
            yield self._tree.joined_paths(ids)[1]
        for ids in self.pieces(pack):
            yield b"".join(map(self._tree.target, ids[self._is_link(ids)].tolist()))


@dataclass(frozen=True)
class Footer:
    """What is behind the content of a pack: `parts` are the entries, so many, and the paths
    section, of so many bytes. `logical_bytes`: the sizes of the files in the pack."""

    entry_count: int
    paths_bytes: int
    logical_bytes: int
    parts: Iterator[bytes | bytearray]
