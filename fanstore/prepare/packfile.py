"""Writes pack files and their footers. The footers hold everything from which the index can be
rebuilt."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash

from fanstore._native import dtype_of, lib
from fanstore.arrays import np
from fanstore.dataset import PackInfo, pack_name
from fanstore.prepare.codecs import Buffer
from fanstore.prepare.plan import align_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.prepare.room import ArrayRoom
    from fanstore.prepare.tree import SourceTree


class Footers:
    """Makes the footer of each pack of a tree. catalogue: the pack whose footer lists the entries
    of the whole dataset; if None, the footer of pack 0 lists the entries without content."""

    def __init__(
        self,
        tree: SourceTree,
        stored: Stored,
        packs: NDArray[np.int64],
        catalogue: int | None = None,
    ) -> None:
        self._tree = tree
        self._stored = stored
        self._catalogue = catalogue
        self._holders = packs
        self._packs = tree.room.zeros(len(tree), np.int64)
        self._link_ids = tree.room.zeros(len(tree), np.int64)
        # For each piece of the tree, its lowest and its highest pack number.
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
        """Yields the entries in the footer of a pack, in pieces."""
        whole = pack == self._catalogue
        for part, least, greatest in self._spans:
            if whole:
                yield np.arange(part.start, part.stop)
            elif least <= pack <= greatest:
                yield np.flatnonzero(self._packs[part] == pack) + part.start

    def footer(self, pack: int) -> Footer:
        """Returns the footer that follows the content of a pack."""
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
        """Returns the sum of the sizes of the files in a pack; a file with several hard links
        counts once."""
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
        """Yields the entries of a footer. They refer to the paths section, which holds all paths
        and then all targets."""
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
    """The footer of a pack. parts: the bytes of the entries (entry_count of them) and of the paths
    section (paths_bytes); logical_bytes: the sum of the sizes of the pack's files."""

    entry_count: int
    paths_bytes: int
    logical_bytes: int
    parts: Iterator[bytes | bytearray]


EMPTY_CHECKSUM = xxhash.xxh3_64_intdigest(b"")
_STORED = {"offset": np.uint64, "stored_size": np.uint64, "checksum": np.uint64, "codec": np.uint8}


class Stored:
    """The place, size, checksum and codec of the content of each entry of a tree. is_planned: the
    packs are not written, and the checksum of each file and directory is its state (see
    csrc/common/original.h)."""

    is_planned = False

    def __init__(self, count: int, room: ArrayRoom) -> None:
        self.offset, self.stored_size, self.checksum, self.codec = (
            room.zeros(count, dtype) for dtype in _STORED.values()
        )
        self._room = room
        for part in room.pieces(count):
            self.checksum[part] = EMPTY_CHECKSUM

    def arrays(self) -> list[NDArray[Any]]:
        """Returns all arrays; each has one element for each entry."""
        return [getattr(self, name) for name in _STORED]

    def filtered(self, keep: NDArray[np.bool_]) -> Stored:
        """Returns the arrays without the entries that `keep` leaves out."""
        kept = Stored(0, self._room)
        for name, values in zip(_STORED, self.arrays(), strict=True):
            setattr(kept, name, self._room.kept(values, keep))
        return kept

    def spread(self, first: NDArray[np.int64]) -> None:
        """Copies the values of a file's first name to its other names (hard links)."""
        for part in self._room.pieces(len(first)):
            for values in self.arrays():
                values[part] = values[first[part]]


_HEADER_BYTES: int = lib.FAN_PACK_HEADER_BYTES
_HOLE_BYTES = 1 << 20
_READ_BYTES = 4 << 20
# After this many bytes the kernel is asked to start writing them to the disk.
_WRITEBACK_BYTES = 16 << 20


def sealed(row: NDArray[Any]) -> bytes:
    """Sets the last field of a struct, `checksum`, to the checksum of the bytes before it. Returns
    the struct's bytes."""
    row["checksum"] = xxhash.xxh3_64_intdigest(row.tobytes()[:-8])
    return row.tobytes()


def pack_header(plan_id: bytes, pack: int, pack_count: int, block_bytes: int, flags: int) -> bytes:
    """Returns the header of a pack, its first 4096 bytes."""
    row = np.zeros(1, dtype_of("struct fan_pack_header"))
    row["magic"] = np.frombuffer(b"FANPACK\n", np.uint8)
    row["version"] = lib.FAN_FORMAT_VERSION
    row["layout_id"] = lib.FAN_PACK_LAYOUT_ID
    row["plan_id"] = np.frombuffer(plan_id, np.uint8)
    row["pack"] = pack
    row["pack_count"] = pack_count
    row["block_bytes"] = block_bytes
    row["flags"] = flags
    return sealed(row).ljust(_HEADER_BYTES, b"\0")


def pack_trailer(entries_offset: int, footer: Footer, checksum: int) -> bytes:
    """Returns the trailer of a pack, its last 64 bytes. checksum: of the footer."""
    entries_bytes = footer.entry_count * dtype_of("struct fan_pack_entry").itemsize
    row = np.zeros(1, dtype_of("struct fan_pack_trailer"))
    row["magic"] = np.frombuffer(b"FANPEND\n", np.uint8)
    row["entries_offset"] = entries_offset
    row["entry_count"] = footer.entry_count
    row["paths_offset"] = entries_offset + entries_bytes
    row["paths_bytes"] = footer.paths_bytes
    row["footer_checksum"] = checksum
    row["file_bytes"] = entries_offset + entries_bytes + footer.paths_bytes + row.nbytes
    return sealed(row)


def _is_hole(data: Buffer) -> bool:
    """Returns whether `data` is large and all zeros, so that a hole in the file can stand for
    it."""
    if len(data) < _HOLE_BYTES or bytes(data[:64]).strip(b"\0"):
        return False
    return not np.frombuffer(data, np.uint64, len(data) // 8).any() and not any(data[-7:])


class PackFile:
    """A pack that is being written. Only one thread may use it."""

    def __init__(self, directory: Path, pack: int, header: bytes, flags: int) -> None:
        self.pack = pack
        self.flags = flags
        self.end = 0
        self._path = directory / pack_name(pack)
        self._fd = -1
        self._digest = xxhash.xxh3_64()
        self._handed_over = 0
        self.append(header, 1)

    def append(self, data: Buffer, alignment: int) -> int:
        """Writes `data` at the next aligned offset behind the end. Returns that offset."""
        place = align_up(self.end, alignment)
        if place > self.end:
            self._write(bytes(place - self.end))
        self._write(data)
        return place

    def _open(self) -> int:
        """Returns the pack's descriptor. Opens the file if it is closed, because very many packs
        cannot all be open."""
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        return self._fd

    def _write(self, data: Buffer) -> None:
        self._digest.update(data)
        at = self.end
        self.end += len(data)
        if _is_hole(data):
            os.ftruncate(self._open(), self.end)
            return
        view = memoryview(data)
        while view:
            count = os.pwrite(self._open(), view, at)
            at += count
            view = view[count:]
        if self.end - self._handed_over >= _WRITEBACK_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        """Asks the kernel to start writing the new bytes to the disk, so that the sync at the end
        is short."""
        # `rewind` may have dropped bytes that were handed over
        start = min(self._handed_over, self.end)
        lib.fan_start_writeback(self._open(), start, self.end - start)
        self._handed_over = self.end

    def mark(self) -> tuple[int, Any]:
        """Returns the state at the present end of the pack, for `rewind`."""
        return self.end, self._digest.copy()

    def rewind(self, mark: tuple[int, Any]) -> None:
        """Drops the bytes that were written since `mark` returned this state."""
        self.end, self._digest = mark
        os.ftruncate(self._open(), self.end)

    def checksum(self) -> int:
        """Returns the XXH3-64 of all bytes written so far."""
        return int(self._digest.intdigest())

    def take_up(self, end: int, checksum: int) -> bool:
        """Keeps the first `end` bytes, which a killed run wrote, if their checksum is `checksum`.
        Otherwise drops everything behind the header and returns False."""
        mark = self.mark()
        with self._path.open("rb") as file:
            file.seek(self.end)
            while data := file.read(min(_READ_BYTES, end - self.end)):
                self._digest.update(data)
                self.end += len(data)
        sound = self.end == end and self.checksum() == checksum
        if sound:
            mark = self.mark()
        self.rewind(mark)
        self.close()
        return sound

    def finish(self, footer: Footer) -> PackInfo:
        """Writes the footer and closes the file."""
        self.append(b"", int(lib.FAN_DATA_ALIGN_BYTES))
        start, checksum = self.end, xxhash.xxh3_64()
        for part in footer.parts:
            checksum.update(part)
            self._write(part)
        self._write(pack_trailer(start, footer, checksum.intdigest()))
        self.close()
        count, logical_bytes = footer.entry_count, footer.logical_bytes
        return PackInfo(self.pack, self.end, self.checksum(), count, logical_bytes, self.flags)

    def close(self) -> None:
        """Closes the file; the next write opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
