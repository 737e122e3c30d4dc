"""A source that reads partition files in the Table 3 layout.

It reads all headers first, then the data, each file once and in order."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fanstore.errors import DatasetDamaged, FanstoreError, UsageError
from fanstore.prepare.listed import normal_form
from fanstore.prepare.run import PrepareOptions, Summary, prepare_from
from fanstore.prepare.source import CHANGED, SequentialSource
from fanstore.prepare.tree import Item, add_parents, tree_of
from fanstore.table3.layout import (
    COMPRESSED_AT,
    COUNT_BYTES,
    HEADER_BYTES,
    BadField,
    Compressed,
    FileHeader,
    unpack_file_header,
)


def import_table3(paths: Sequence[Path], destination: Path, options: PrepareOptions) -> Summary:
    """Packs partition files into the new dataset `destination`, like `prepare`. Also raises the
    errors of Table3Source."""
    return prepare_from(lambda _: (Table3Source(paths), []), paths, destination, options)


def _identity(fd: int) -> tuple[int, int, int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(frozen=True)
class HeaderPlace:
    """The position of a file's header: the partition, and the offset in it."""

    partition: int
    offset: int


class Partition:
    """One partition file. Reads and checks its headers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.identity = _identity(self._fd)
        self._bytes = self.identity[2]

    def close(self) -> None:
        os.close(self._fd)

    def damaged(self, field: str, offset: int, reason: str) -> DatasetDamaged:
        """Returns the exception for a bad field; does not raise it."""
        return DatasetDamaged(self.path, field, offset, reason)

    def headers(self) -> Iterator[tuple[int, FileHeader]]:
        """Yields the offset and the content of each header. Raises DatasetDamaged, UsageError."""
        raw = os.pread(self._fd, COUNT_BYTES, 0)
        if len(raw) < COUNT_BYTES:
            raise self.damaged("count", len(raw), "truncated")
        at = COUNT_BYTES
        count = int.from_bytes(raw, "little")
        if count > (self._bytes - at) // HEADER_BYTES:
            raise self.damaged("count", 0, f"{count} files do not fit in {self._bytes} bytes")
        for number in range(count):
            header = self._header(f"files[{number}]", at)
            yield at, header
            at += HEADER_BYTES + header.size
        if at != self._bytes:
            raise self.damaged("count", at, f"{self._bytes - at} bytes follow the last file")

    def _header(self, field: str, at: int) -> FileHeader:
        raw = os.pread(self._fd, HEADER_BYTES, at)
        if len(raw) < HEADER_BYTES:
            raise self.damaged(field, at + len(raw), "truncated")
        try:
            header = unpack_file_header(raw)
        except BadField as error:
            bad = f"{field}.{error.field}"
            raise self.damaged(bad, at + error.offset, error.reason) from error
        except Compressed as error:
            raise UsageError(
                f"{self.path}: {field}.compressed_size at offset {at + COMPRESSED_AT}: the data "
                "is compressed (LZSSE8), and only uncompressed partitions can be imported"
            ) from error
        if header.size > self._bytes - at - HEADER_BYTES:
            raise self.damaged(f"{field}.data", at + HEADER_BYTES, "truncated")
        return header


class PartitionContents:
    """The files of all partitions by path, and the position of each file's header. Directories
    follow from the paths."""

    def __init__(self) -> None:
        self.items: dict[bytes, Item] = {}
        self.places: list[HeaderPlace] = []

    def add(self, header: FileHeader, place: HeaderPlace) -> str | None:
        """Adds one file. Returns the reason if its name cannot be used, else None."""
        path = normal_form(header.name)
        if not path:
            return "leads out of the dataset"
        item = Item(
            header.mode, header.size, header.mtime_ns, header.uid, header.gid,
            ordinal=len(self.places),
        )  # fmt: skip
        reason = add_parents(self.items, path, item)
        if reason is None and path in self.items:
            reason = "is there already"
        if reason is None:
            self.items[path] = item
            self.places.append(place)
        return reason


class Table3Source(SequentialSource):
    """Partition files in the Table 3 layout as one source. Raises DatasetDamaged, which names file,
    field and offset; UsageError for compressed files; OSError."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)
        self._identities: list[tuple[int, int, int, int]] = []
        contents = PartitionContents()
        for number, path in enumerate(paths):
            self._scan(contents, number, path)
        contents.items.setdefault(b"", Item(stat.S_IFDIR | 0o755))
        self._places = contents.places
        self.tree = tree_of(contents.items)
        self._fd = -1
        self._partition = -1

    def _scan(self, contents: PartitionContents, number: int, path: Path) -> None:
        partition = Partition(path)
        try:
            self._identities.append(partition.identity)
            for file, (at, header) in enumerate(partition.headers()):
                reason = contents.add(header, HeaderPlace(number, at))
                if reason is not None:
                    raise partition.damaged(f"files[{file}].name", at, reason)
        finally:
            partition.close()

    def _open(self, partition: int) -> int:
        """Opens a partition and returns its descriptor, which stays open until another partition is
        asked for."""
        if self._partition != partition:
            self.close()
            self._fd = os.open(self._paths[partition], os.O_RDONLY | os.O_CLOEXEC)
            self._partition = partition
        return self._fd

    def read_piece(self, number: int, start: int, buffer: memoryview) -> None:
        """Reads a piece of one file into `buffer`. Raises FanstoreError if the partition has
        changed."""
        place = self._places[self.tree.ordinal(number)]
        fd = self._open(place.partition)
        done = 0
        while done < len(buffer):
            at = place.offset + HEADER_BYTES + start + done
            count = os.preadv(fd, [buffer[done:]], at)
            if count == 0:
                break
            done += count
        if done < len(buffer) or _identity(fd) != self._identities[place.partition]:
            raise FanstoreError(f"{self._paths[place.partition]}: {CHANGED}")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = self._partition = -1
