"""Deciding what goes where before anything is read. Pure: data in, data out."""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import xxhash

from fanstore._native import lib
from fanstore.arrays import np
from fanstore.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.prepare.tree import Tree

# One partition for so much data, unless the number is given.
PARTITION_BYTES = 256 << 20
# Small files are read, and large ones cut, in units of about this size: what was read is still in
# a cache of the processor when it is written.
UNIT_BYTES = 2 << 20
UNIT_FILES = 2048

_ALIGN: int = lib.FAN_DATA_ALIGN_BYTES
_MAP_ALIGN: int = lib.FAN_MAP_ALIGN_BYTES
_MAP_THRESHOLD: int = lib.FAN_MAP_THRESHOLD_BYTES


def align_up(offset: int, alignment: int) -> int:
    """The next multiple of a power of two."""
    return (offset + alignment - 1) & -alignment


def place_after(end: int, size: int) -> tuple[int, int]:
    """Where `size` uncompressed bytes go behind `end`, and the end of their padding."""
    if size >= _MAP_THRESHOLD:
        place = align_up(end, _MAP_ALIGN)
        return place, align_up(place + size, _MAP_ALIGN)
    place = align_up(end, _ALIGN)
    return place, place + size


@dataclass(frozen=True)
class Unit:
    """What is read and compressed in one go for one pack.

    Either whole files (`piece_bytes` 0), entry ids[i] at places[i] of a buffer, the last of the
    places being the end; or one piece of a large file, from `start` on.
    """

    pack: int
    ids: tuple[int, ...]
    places: tuple[int, ...] = ()
    start: int = 0
    piece_bytes: int = 0
    is_last: bool = True

    @property
    def buffer_bytes(self) -> int:
        return self.piece_bytes or self.places[-1]


def split_evenly(sizes: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """The part of each of a row of sizes: contiguous, balanced by bytes."""
    if not len(sizes):
        return np.zeros(0, np.int64)
    ends = np.cumsum(sizes, dtype=np.float64)
    middles = ends - sizes / 2
    part: NDArray[np.int64] = (middles * (parts / ends[-1])).astype(np.int64)
    return np.minimum(part, parts - 1)


def default_partitions(sizes: NDArray[np.int64]) -> int:
    """One partition per 256 MiB of files of these sizes, but no more than there are files, and at
    least one."""
    return max(1, min(len(sizes), -(-int(sizes.sum()) // PARTITION_BYTES)))


def replicated(
    paths: Sequence[bytes], parents: Sequence[int], globs: Iterable[str]
) -> NDArray[np.bool_]:
    """Which entries match a glob, or lie below one that does. `*` matches slashes too."""
    patterns = [
        re.compile(fnmatch.translate(glob).encode("utf-8", "surrogateescape"), re.DOTALL)
        for glob in globs
    ]
    found = np.zeros(len(paths), bool)
    if not patterns:
        return found
    for number, path in enumerate(paths):
        found[number] = found[parents[number]] or any(p.match(path) for p in patterns)
    return found


@dataclass(frozen=True)
class Plan:
    """The pack of each entry of a tree (0 for what has no content), and how many packs there
    are: those from `everywhere_from` on are for every node.

    `content` holds the entries to read, in reading order, and `kept` the numbers of the packs that
    an update takes over; the packs from `first` on are new.
    """

    packs: NDArray[np.int64]
    pack_count: int
    everywhere_from: int
    content: NDArray[np.int64]
    first: int = 0
    kept: tuple[int, ...] = ()

    @property
    def written(self) -> list[int]:
        """The packs that are written: the new ones, and empty ones in the place of dropped ones."""
        return sorted(set(range(self.pack_count)) - set(self.kept))

    @property
    def catalogue(self) -> int | None:
        """The pack whose footer is that of the whole dataset; None where no packs are kept."""
        return self.pack_count - 1 if self.kept else None

    def flags(self, pack: int) -> int:
        """The flags of a pack that is written."""
        flags = int(lib.FAN_PACK_EVERYWHERE) if pack >= self.everywhere_from else 0
        return flags | (int(lib.FAN_PACK_CATALOGUE) if pack == self.catalogue else 0)


def assign_packs(tree: Tree, partitions: int | None, globs: Sequence[str]) -> Plan:
    """Partitions the content: replicated files go to further packs behind the others.

    Raises UsageError when globs are given and none of them matches.
    """
    everywhere = np.zeros(len(tree), bool)
    if globs:
        everywhere = replicated(tree.paths, tree.entries["parent"].tolist(), globs)
        if not everywhere[tree.content].any():
            raise UsageError(f"--replicate {' '.join(globs)}: no file with content matches")
    return spread(tree, tree.content, everywhere, partitions)


def spread(
    tree: Tree, content: NDArray[np.int64], everywhere: NDArray[np.bool_],
    partitions: int | None, kept: Mapping[int, NDArray[np.int64]] = MappingProxyType({}),
) -> Plan:  # fmt: skip
    """Divides `content` among new packs, those of `everywhere` (bool for each entry) apart.
    `kept` holds the entries whose content lies in packs that stay, by pack."""
    packs = np.zeros(len(tree), np.int64)
    for pack, ids in kept.items():
        packs[ids] = pack
    sizes = tree.entries["size"][content].astype(np.int64)
    replica = everywhere[content]
    first = max(kept, default=-1) + 1
    middle = end = first + (partitions or default_partitions(sizes[~replica]))
    packs[content[~replica]] = first + split_evenly(sizes[~replica], middle - first)
    if replica.any():
        end += default_partitions(sizes[replica])
        packs[content[replica]] = middle + split_evenly(sizes[replica], end - middle)
    return Plan(packs[tree.first], end, middle, content, first, tuple(sorted(kept)))


def plan_id(tree: Tree, plan: Plan, block_bytes: int, codec: str, before: bytes = b"") -> bytes:
    """16 bytes that name a scan and how it is to be packed; `before` is the id that an update
    begins with."""
    digest = xxhash.xxh3_128(before)
    digest.update(f"{plan.pack_count} {plan.everywhere_from} {block_bytes} {codec}".encode())
    for field in ("parent", "name_bytes", "target_bytes", "size", "mtime_ns", "mode", "uid", "gid"):
        digest.update(tree.entries[field].tobytes())
    digest.update(tree.first.tobytes())
    digest.update(plan.packs.tobytes())
    digest.update(tree.names.data)
    return bytes(digest.digest())


def piece_bytes_for(block_bytes: int) -> int:
    """The size of the pieces of large files: whole blocks."""
    return max(UNIT_BYTES, block_bytes)


def _pieces(pack: int, number: int, size: int, step: int) -> Iterator[Unit]:
    for start in range(0, size, step):
        length = min(step, size - start)
        yield Unit(pack, (number,), (), start, length, start + length == size)


def reading_order(plan: Plan, sequential: bool) -> NDArray[np.int64]:
    """The entries to read in the order in which to read them: the source's own where it is
    sequential, else pack after pack."""
    content = plan.content
    return content if sequential else content[np.argsort(plan.packs[content], kind="stable")]


def units(tree: Tree, order: NDArray[np.int64], plan: Plan, block_bytes: int) -> Iterator[Unit]:
    """The entries of `order`, cut into units."""
    sizes = tree.entries["size"][order].astype(np.int64)
    packs = plan.packs[order]
    for start, stop in _runs(sizes, packs):
        pack = int(packs[start])
        if sizes[start] > UNIT_BYTES:
            number = int(order[start])
            yield from _pieces(pack, number, int(sizes[start]), piece_bytes_for(block_bytes))
            continue
        yield from _whole_files(pack, order[start:stop].tolist(), sizes[start:stop].tolist())


def _runs(sizes: NDArray[np.int64], packs: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Where runs of files start and stop that can share a unit: large files are alone, others
    have the pack in common."""
    large = sizes > UNIT_BYTES
    cut = np.flatnonzero(large[1:] | large[:-1] | (packs[1:] != packs[:-1])) + 1
    edges = [0, *cut.tolist(), len(sizes)] if len(sizes) else []
    yield from itertools.pairwise(edges)


def _whole_files(pack: int, ids: list[int], sizes: list[int]) -> Iterator[Unit]:
    """Units of a run of files. Places are as `place_after` says, here for very many files."""
    first, end, places = 0, 0, list[int]()
    for at, size in enumerate(sizes):
        if at > first and (end + size > UNIT_BYTES or at - first == UNIT_FILES):
            yield Unit(pack, tuple(ids[first:at]), (*places, end))
            first, end, places = at, 0, []
        if size >= _MAP_THRESHOLD:
            place, end = place_after(end, size)
        else:
            place = (end + _ALIGN - 1) & -_ALIGN
            end = place + size
        places.append(place)
    if places:
        yield Unit(pack, tuple(ids[first:]), (*places, end))
