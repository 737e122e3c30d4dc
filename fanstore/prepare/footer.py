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
    """Makes the footer of each pack of a tree."""

    def __init__(self, tree: Tree, stored: Stored, packs: NDArray[np.int64]) -> None:
        self._tree = tree
        self._stored = stored
        self._regular = tree.kinds == stat.S_IFREG
        self._packs = np.where(self._regular, packs, 0)
        linked = np.bincount(tree.first, minlength=len(tree))[tree.first] > 1
        self._link_ids = np.where(linked, tree.first + 1, 0)

    def entries(self, pack: int) -> tuple[NDArray[Any], bytearray, int]:
        """The entries of a pack, its paths section, and its logical bytes."""
        tree, stored = self._tree, self._stored
        ids = np.flatnonzero(self._packs == pack)
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
        paths = self._add_paths(rows, ids)
        once = regular & (tree.first[ids] == ids)
        return rows, paths, int(source["size"][once].sum())

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
