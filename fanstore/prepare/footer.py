"""The footers of packs: what is needed to make the index again from the packs alone."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

from fanstore._native import dtype_of
from fanstore.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.prepare.packer import Stored
    from fanstore.prepare.tree import Tree


class Footers:
    """Makes the footer of each pack of a tree. A `catalogue` is a pack whose footer is that of
    the whole dataset; without one, pack 0 has the entries that have no content."""

    def __init__(
        self, tree: Tree, stored: Stored, packs: NDArray[np.int64], catalogue: int | None = None
    ) -> None:
        self._tree = tree
        self._stored = stored
        self._regular = tree.kinds == stat.S_IFREG
        self._catalogue = catalogue
        self._holders = packs
        has_content = self._regular & (tree.entries["size"] > 0)
        self._packs = np.where(has_content, packs, catalogue or 0)
        linked = np.bincount(tree.first, minlength=len(tree))[tree.first] > 1
        self._link_ids = np.where(linked, tree.first + 1, 0)

    def entries(self, pack: int) -> tuple[NDArray[Any], bytearray, int]:
        """The entries of a pack, its paths section, and its logical bytes."""
        tree, stored = self._tree, self._stored
        whole = pack == self._catalogue
        ids = np.arange(len(tree)) if whole else np.flatnonzero(self._packs == pack)
        source = tree.entries[ids]
        rows = np.zeros(len(ids), dtype_of("struct fan_pack_entry"))
        regular = self._regular[ids]
        rows["logical_size"] = np.where(regular, source["size"], 0)
        rows["stored_size"] = stored.stored_size[ids]
        rows["offset"] = stored.offset[ids]
        rows["checksum"] = np.where(regular, stored.checksum[ids], 0)
        rows["codec"] = stored.codec[ids]
        rows["link_id"] = self._link_ids[ids]
        for field in ("mtime_ns", "mode", "uid", "gid"):
            rows[field] = source[field]
        if whole:
            rows["holder"] = np.where(regular, self._holders + 1, 0)
        return rows, self._add_paths(rows, ids), self.logical_bytes(pack)

    def logical_bytes(self, pack: int) -> int:
        """The sizes of the files in a pack, hard-linked ones once."""
        ids = np.flatnonzero((self._packs == pack) & self._regular)
        once = ids[self._tree.first[ids] == ids]
        return int(self._tree.entries["size"][once].sum())

    def _add_paths(self, rows: NDArray[Any], ids: NDArray[np.int64]) -> bytearray:
        """Fills where each path, and the target of each symbolic link, lies in the section."""
        lengths, paths = self._tree.joined_paths(ids)
        ends = np.cumsum(lengths)
        rows["path_bytes"] = lengths
        rows["path_offset"] = ends - lengths
        end = int(ends[-1]) if len(ends) else 0
        for row in np.flatnonzero((rows["mode"] & 0o170000) == stat.S_IFLNK).tolist():
            target = self._tree.targets[int(ids[row])]
            rows["offset"][row] = end
            rows["logical_size"][row] = len(target)
            end += len(target)
            paths += target
        return paths
