"""The content of a dataset's files, from packs that are mapped where they lie."""

from __future__ import annotations

import mmap
from functools import partial
from typing import TYPE_CHECKING

import xxhash

from fanstore._native import lib
from fanstore.dataset import Dataset
from fanstore.decoding import ContentDamaged, pieces_of
from fanstore.errors import DatasetDamaged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class MappedPacks:
    """Maps each pack when it is first read. By any thread."""

    def __init__(self, index: Dataset) -> None:
        self._index = index
        self._mapped: dict[int, mmap.mmap] = {}
        self._read = {pack: partial(self._bytes, pack) for pack in range(index.pack_count)}

    def content(self, record: int) -> bytes:
        """Returns the content of a regular file, whose checksum is right. Raises DatasetDamaged."""
        row = self._index.record(record)
        if row.codec == lib.FAN_CODEC_STORE:
            size = row.logical_size
            content = self._bytes(row.pack, row.offset, size) if size else b""
        else:
            content = self._decoded(record, 0, row.logical_size)
        if xxhash.xxh3_64_intdigest(content) != row.checksum:
            raise self._damaged(record)
        return content

    def view(self, record: int) -> memoryview:
        """Returns the same, read-only: of a stored file it is the mapped pack itself. Raises
        DatasetDamaged."""
        row = self._index.record(record)
        if row.codec != lib.FAN_CODEC_STORE or row.logical_size == 0:
            return memoryview(self.content(record))
        view = memoryview(self._map(row.pack))[row.offset : row.offset + row.logical_size]
        if xxhash.xxh3_64_intdigest(view) != row.checksum:
            raise self._damaged(record)
        return view

    def read_into(self, records: NDArray[np.int64], rows: NDArray[np.uint8]) -> None:
        """Copies files, each as long as a row, into rows. Raises DatasetDamaged."""
        found = self._index.records[records]
        columns = [found[name].tolist() for name in ("pack", "offset", "codec", "checksum")]
        size = rows.shape[1]
        for row, record, pack, offset, codec, checksum in zip(
            rows, records.tolist(), *columns, strict=True
        ):
            if codec != lib.FAN_CODEC_STORE:
                row.data[:] = self.content(record)
                continue
            content = memoryview(self._map(pack))[offset : offset + size]
            if len(content) != size:
                raise self._damaged(record)
            row.data[:] = content
            if xxhash.xxh3_64_intdigest(row.data) != checksum:
                raise self._damaged(record)

    def part(self, record: int, offset: int, size: int) -> bytes:
        """Returns `size` bytes from `offset` on, fewer at the end. Nothing compares a checksum, but
        of those that are decoded it is sure that they were encoded. Raises DatasetDamaged."""
        row = self._index.record(record)
        end = min(offset + size, row.logical_size)
        if offset >= end:
            return b""
        if row.codec != lib.FAN_CODEC_STORE:
            first = offset - offset % self._index.block_bytes
            return self._decoded(record, first, end)[offset - first : end - first]
        part = self._bytes(row.pack, row.offset + offset, end - offset)
        if len(part) != end - offset:
            raise self._damaged(record)
        return part

    def _decoded(self, record: int, start: int, end: int) -> bytes:
        row = self._index.record(record)
        try:
            pieces = pieces_of(self._index, record, self._read[row.pack], start, end)
            return b"".join(pieces)
        except (ContentDamaged, KeyError):
            raise self._damaged(record) from None

    def _bytes(self, pack: int, offset: int, length: int) -> bytes:
        return self._map(pack)[offset : offset + length]

    def _map(self, pack: int) -> mmap.mmap:
        mapped = self._mapped.get(pack)
        if mapped is None:
            # Two threads may come here at once: the mapping of one is dropped.
            mapped = self._mapped.setdefault(pack, self._open(pack))
        return mapped

    def _open(self, pack: int) -> mmap.mmap:
        path = self._index.pack_path(pack)
        try:
            self._index.check_pack_header(pack)
            with path.open("rb") as stream:
                return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise DatasetDamaged(path, "file", 0, "missing") from None

    def _damaged(self, record: int) -> DatasetDamaged:
        row = self._index.record(record)
        path = self._index.pack_path(row.pack)
        name = self._index.relpath(record).decode("utf-8", "backslashreplace")
        return DatasetDamaged(path, f"content of {name}", row.offset, "damaged")

    def close(self) -> None:
        """Lets the packs go; views of them keep theirs."""
        for mapped in self._mapped.values():
            try:
                mapped.close()
            except BufferError:
                continue
        self._mapped.clear()
