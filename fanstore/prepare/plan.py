"""Decides which pack each file goes to, before any content is read. Pure: data in, data out."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import xxhash

from fanstore._native import ffi, lib
from fanstore.arrays import np
from fanstore.errors import UsageError
from fanstore.prepare.room import pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.prepare.tree import SourceTree

# The bytes of one partition if the user gives no number of partitions.
PARTITION_BYTES = 256 << 20
# A smaller dataset has this many partitions, so that each of several ranks gets a share of it, but
# none below SMALL_PARTITION_BYTES.
RANKS_EXPECTED = 16
SMALL_PARTITION_BYTES = 4 << 20
# Small files are read together, and large files are cut, in units of about this size, so that the
# data is still in a processor cache when it is written.
UNIT_BYTES = 2 << 20
UNIT_FILES = 2048


def align_up(offset: int, alignment: int) -> int:
    """Returns the next multiple of `alignment`, a power of two, from `offset` on."""
    return (offset + alignment - 1) & -alignment


def places_after(end: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """Returns the offsets of uncompressed files that are written behind `end`, and the end of the
    padding after them."""
    places = ffi.new("uint64_t[]", len(sizes) + 1)
    lib.fan_places_after(end, ffi.new("uint64_t[]", sizes), len(sizes), places)
    return tuple(places)


@dataclass(frozen=True)
class Unit:
    """Content of one pack that is read and compressed in one step.

    Either whole files (`piece_bytes` is 0): entry ids[i] goes to places[i] of a buffer, and the
    last place is the end; or one piece of a large file, from offset `start` on."""

    pack: int
    ids: tuple[int, ...]
    places: tuple[int, ...] = ()
    start: int = 0
    piece_bytes: int = 0
    is_last: bool = True

    @property
    def buffer_bytes(self) -> int:
        return self.piece_bytes or self.places[-1]


class Split:
    """Divides a sequence of files among `parts` packs, numbered from `first` on: each pack gets
    files that follow each other, and about equally many bytes. The files' sizes are passed piece by
    piece. total: the sum of all sizes."""

    def __init__(self, total: int, first: int, parts: int) -> None:
        self._end = 0
        self._total = total
        self._first = first
        self._parts = parts

    def next(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the pack of each of the next files. sizes: in bytes."""
        if not len(sizes):
            return np.zeros(0, np.int64)
        ends = np.cumsum(sizes) + self._end
        self._end = int(ends[-1])
        middles = ends.astype(np.float64) - sizes / 2
        part: NDArray[np.int64] = (middles * (self._parts / float(self._total))).astype(np.int64)
        return np.minimum(part, self._parts - 1) + self._first


def default_partitions(files: int, total: int, is_new: bool = True) -> int:
    """Returns the default number of partitions for `files` files of `total` bytes: one per 256 MiB,
    at most one per file, at least one. is_new: the files are the whole content that ranks divide
    among themselves. It then has up to RANKS_EXPECTED partitions of at least
    SMALL_PARTITION_BYTES."""
    several = min(RANKS_EXPECTED, total // SMALL_PARTITION_BYTES) if is_new else 1
    return max(1, min(files, max(several, -(-total // PARTITION_BYTES))))


def replicated(tree: SourceTree, globs: Iterable[str]) -> NDArray[np.bool_]:
    """Returns a mask of the entries that match one of the globs or lie below an entry that does.
    `*` also matches slashes."""
    patterns = [
        re.compile(fnmatch.translate(glob).encode("utf-8", "surrogateescape"), re.DOTALL)
        for glob in globs
    ]
    found = tree.room.zeros(len(tree), bool)
    for part in tree.pieces() if patterns else ():
        paths = tree.paths_of(np.arange(part.start, part.stop))
        parents = tree.entries["parent"][part].tolist()
        for number, (path, parent) in enumerate(zip(paths, parents, strict=True), part.start):
            found[number] = found[parent] or any(p.match(path) for p in patterns)
    return found


@dataclass(frozen=True)
class PackPlan:
    """The pack of each entry of a tree (0 for entries without content), and the number of packs.
    Every node gets the packs from `everywhere_from` on.

    content: the entries to read, in reading order; kept: the packs that an update takes over; the
    packs from `first` on are new."""

    packs: NDArray[np.int64]
    pack_count: int
    everywhere_from: int
    content: NDArray[np.int64]
    first: int = 0
    kept: tuple[int, ...] = ()

    def parts(self) -> Iterator[NDArray[np.int64]]:
        """Yields the entries to read, in pieces."""
        return (self.content[part] for part in pieces(len(self.content)))

    @property
    def written(self) -> list[int]:
        """The packs to write: the new ones, and an empty pack in place of each dropped one."""
        return sorted(set(range(self.pack_count)) - set(self.kept))

    @property
    def catalogue(self) -> int | None:
        """The pack whose footer lists the entries of the whole dataset; None if no packs are
        kept."""
        return self.pack_count - 1 if self.kept else None

    def flags(self, pack: int) -> int:
        """Returns the flags for the header of a pack."""
        flags = int(lib.FAN_PACK_EVERYWHERE) if pack >= self.everywhere_from else 0
        return flags | (int(lib.FAN_PACK_CATALOGUE) if pack == self.catalogue else 0)


def assign_packs(tree: SourceTree, partitions: int | None, globs: Sequence[str]) -> PackPlan:
    """Divides the content among packs. Files that match `globs` go to packs of their own behind the
    others.

    Raises UsageError if globs are given and none of them matches a file with content."""
    everywhere = replicated(tree, globs)
    plan = spread(tree, tree.content, everywhere, partitions)
    if globs and not any(everywhere[ids].any() for ids in plan.parts()):
        raise UsageError(f"--replicate {' '.join(globs)}: no file with content matches")
    return plan


def spread(
    tree: SourceTree, content: NDArray[np.int64], everywhere: NDArray[np.bool_],
    partitions: int | None, kept: Mapping[int, NDArray[np.int64]] = MappingProxyType({}),
) -> PackPlan:  # fmt: skip
    """Divides `content` among new packs; entries in `everywhere` (bool for each entry) get packs of
    their own. kept: for each pack that stays, the entries whose content lies in it."""
    room = tree.room
    packs = room.zeros(len(tree), np.int64)
    for pack, ids in kept.items():
        packs[ids] = pack
    counts, totals = [0, 0], [0, 0]  # for files not on every node, and for files on every node
    for part in room.pieces(len(content)):
        replica, sizes = everywhere[content[part]], _sizes(tree, content[part])
        for which, chosen in enumerate((~replica, replica)):
            counts[which] += int(np.count_nonzero(chosen))
            totals[which] += int(sizes[chosen].sum())
    first = max(kept, default=-1) + 1
    middle = first + (partitions or default_partitions(counts[0], totals[0], not kept))
    end = middle + (default_partitions(counts[1], totals[1], False) if counts[1] else 0)
    splits = Split(totals[0], first, middle - first), Split(totals[1], middle, end - middle)
    for part in room.pieces(len(content)):
        ids = content[part]
        replica, sizes = everywhere[ids], _sizes(tree, ids)
        for split, chosen in zip(splits, (~replica, replica), strict=True):
            packs[ids[chosen]] = split.next(sizes[chosen])
    for part in tree.pieces():
        packs[part] = packs[tree.first[part]]
    return PackPlan(packs, end, middle, content, first, tuple(sorted(kept)))


def _sizes(tree: SourceTree, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    sizes: NDArray[np.int64] = tree.entries["size"][ids].astype(np.int64)
    return sizes


def plan_id(
    tree: SourceTree, plan: PackPlan, block_bytes: int, codec: str, before: bytes = b""
) -> bytes:
    """Returns 16 bytes that identify a scan and its plan. before: the id of the dataset that is
    updated."""
    digest = xxhash.xxh3_128(before)
    digest.update(f"{plan.pack_count} {plan.everywhere_from} {block_bytes} {codec}".encode())
    for field in ("parent", "name_bytes", "target_bytes", "size", "mtime_ns", "mode", "uid", "gid"):
        for part in tree.pieces():
            digest.update(tree.entries[field][part].tobytes())
    for array in (tree.first, plan.packs, tree.names):
        digest.update(array.data)
    return bytes(digest.digest())


def piece_bytes_for(block_bytes: int) -> int:
    """Returns the size of the pieces into which large files are cut: a whole number of blocks."""
    return max(UNIT_BYTES, block_bytes)


def _pieces(pack: int, number: int, size: int, step: int) -> Iterator[Unit]:
    for start in range(0, size, step):
        length = min(step, size - start)
        yield Unit(pack, (number,), (), start, length, start + length == size)


class Order:
    """The entries to read, `ids`, in the order in which to read them."""

    def __init__(self, ids: NDArray[np.int64], starts: NDArray[np.int64] | None) -> None:
        self.ids = ids
        self._starts = starts

    def of_pack(self, pack: int) -> NDArray[np.int64]:
        """Returns the entries of one pack. Allowed only for an order that is pack by pack."""
        assert self._starts is not None
        return self.ids[self._starts[pack] : self._starts[pack + 1]]


def reading_order(tree: SourceTree, plan: PackPlan, sequential: bool) -> Order:
    """Returns the order in which to read entries: the source's own order if the source is
    sequential, otherwise pack by pack."""
    content, room = plan.content, tree.room
    if sequential:
        return Order(content, None)
    starts = np.zeros(plan.pack_count + 1, np.int64)
    for part in room.pieces(len(content)):
        starts[1:] += np.bincount(plan.packs[content[part]], minlength=plan.pack_count)
    starts = np.cumsum(starts)
    ids, ends = room.zeros(len(content), np.int64), starts.copy()
    for part in room.pieces(len(content)):
        packs = plan.packs[content[part]]
        order = np.argsort(packs, kind="stable")
        packs = packs[order]
        # Each entry goes behind the entries of its pack from earlier pieces.
        places = ends[packs] + np.arange(len(packs)) - np.searchsorted(packs, packs)
        ids[places] = content[part][order]
        ends[:-1] += np.bincount(packs, minlength=plan.pack_count)
    return Order(ids, starts)


def units(
    tree: SourceTree, order: NDArray[np.int64], plan: PackPlan, block_bytes: int
) -> Iterator[Unit]:
    """Divides the entries of `order` into units and yields them."""
    pack, total = -1, 0
    ids, sizes = list[int](), list[int]()
    for number, size, its_pack in _to_read(tree, order, plan):
        large = size > UNIT_BYTES
        full = total + size > UNIT_BYTES or len(ids) == UNIT_FILES
        if ids and (its_pack != pack or full or large):
            yield Unit(pack, tuple(ids), places_after(0, sizes))
            ids, sizes, total = [], [], 0
        pack = its_pack
        if large:
            yield from _pieces(pack, number, size, piece_bytes_for(block_bytes))
            continue
        ids.append(number)
        sizes.append(size)
        total += size
    if ids:
        yield Unit(pack, tuple(ids), places_after(0, sizes))


def _to_read(
    tree: SourceTree, order: NDArray[np.int64], plan: PackPlan
) -> Iterator[tuple[int, int, int]]:
    """Yields (entry, size, pack) for each entry of `order`."""
    for part in tree.room.pieces(len(order)):
        ids = order[part]
        yield from zip(
            ids.tolist(), _sizes(tree, ids).tolist(), plan.packs[ids].tolist(), strict=True
        )
