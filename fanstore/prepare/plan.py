"""Deciding what goes where before anything is read. Pure: data in, data out."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from fanstore._native import lib
from fanstore.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.prepare.tree import Tree

# One partition for so much data, unless the number is given.
PARTITION_BYTES = 256 << 20
# Small files are read, and large ones cut, in units of about this size.
UNIT_BYTES = 4 << 20
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


def default_partitions(total_bytes: int) -> int:
    """One partition per 256 MiB, at least one."""
    return max(1, -(-total_bytes // PARTITION_BYTES))


def replicated(paths: Sequence[bytes], parents: Sequence[int], globs: Iterable[str]) -> (
    NDArray[np.bool_]
):
    """Which entries match a glob, or lie below one that does. `*` matches slashes too."""
    patterns = [re.compile(fnmatch.translate(glob).encode("utf-8", "surrogateescape"), re.DOTALL)
                for glob in globs]
    found = np.zeros(len(paths), bool)
    if not patterns:
        return found
    for number, path in enumerate(paths):
        found[number] = found[parents[number]] or any(p.match(path) for p in patterns)
    return found


@dataclass(frozen=True)
class Plan:
    """The pack of each entry of a tree (0 for what has no content), and how many packs there
    are: those from `everywhere_from` on are for every node."""

    packs: NDArray[np.int64]
    pack_count: int
    everywhere_from: int


def assign_packs(tree: Tree, partitions: int | None, globs: Sequence[str]) -> Plan:
    """Partitions the content: replicated files go to further packs behind the others.

    Raises UsageError when globs are given and none of them matches.
    """
    content = tree.content
    sizes = tree.entries["size"][content].astype(np.int64)
    everywhere = np.zeros(len(content), bool)
    if globs:
        everywhere = replicated(tree.paths, tree.entries["parent"].tolist(), globs)[content]
        if not everywhere.any():
            raise UsageError(f"--replicate {' '.join(globs)}: no file with content matches")
    packs = np.zeros(len(tree), np.int64)
    count = partitions or default_partitions(int(sizes[~everywhere].sum()))
    packs[content[~everywhere]] = split_evenly(sizes[~everywhere], count)
    further = 0
    if everywhere.any():
        further = default_partitions(int(sizes[everywhere].sum()))
        packs[content[everywhere]] = count + split_evenly(sizes[everywhere], further)
    return Plan(packs[tree.first], count + further, count)


def plan_id(tree: Tree, plan: Plan, block_bytes: int, codec: str) -> bytes:
    """16 bytes that name a scan and how it is to be packed."""
    digest = xxhash.xxh3_128()
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


def reading_order(tree: Tree, plan: Plan, sequential: bool) -> NDArray[np.int64]:
    """The entries with content in the order in which to read them: the source's own where it is
    sequential, else pack after pack."""
    content = tree.content
    return content if sequential else content[np.argsort(plan.packs[content], kind="stable")]


def units(
    tree: Tree, order: NDArray[np.int64], plan: Plan, block_bytes: int
) -> Iterator[Unit]:
    """The entries of `order`, cut into units."""
    step = piece_bytes_for(block_bytes)
    ids: list[int] = []
    places: list[int] = []
    end, pack = 0, 0
    sizes = tree.entries["size"][order].tolist()
    rows = zip(order.tolist(), sizes, plan.packs[order].tolist(), strict=True)
    for number, size, its_pack in rows:
        full = end + size > UNIT_BYTES or len(ids) == UNIT_FILES
        if ids and (full or its_pack != pack):
            yield Unit(pack, tuple(ids), (*places, end))
            ids, places, end = [], [], 0
        pack = its_pack
        if size > UNIT_BYTES:
            yield from _pieces(pack, number, size, step)
            continue
        place, end = place_after(end, size)
        ids.append(number)
        places.append(place)
    if ids:
        yield Unit(pack, tuple(ids), (*places, end))
