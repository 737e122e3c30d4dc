"""Opens datasets, and reads the content of their files: from mapped packs, from a bucket, through a
mount in this process, or as a stream."""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import xxhash

from fanstore._native import lib
from fanstore.buckets.address import is_address
from fanstore.dataset import Dataset, device_number, open_dataset, pack_name
from fanstore.decoding import ContentDamaged, pieces_of
from fanstore.errors import DatasetDamaged, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PREFIX = "FANSTORE_MOUNT_PREFIX"


def open_any(path: str | os.PathLike[str], verify: bool = False) -> Dataset:
    """Opens a dataset, as open_dataset does, or what lies at an address: a dataset, or the listing
    of objects. Raises also UsageError and BucketRefused."""
    if not is_address(os.fspath(path)):
        return open_dataset(path, verify)
    from fanstore.prepare.listing import open_listing

    return open_listing(path, lambda _: None)[0]


def open_packed(path: str) -> Dataset:
    """Opens a dataset, on a file system or in a bucket, and checks its whole index. Raises what
    open_any raises, and UsageError for an address of plain objects."""
    dataset = open_any(path, verify=True)
    if dataset.is_planned:
        raise UsageError(f"{path}: these are objects, not a dataset")
    return dataset


def mount_of(index: Dataset) -> str | None:
    """Returns the prefix at which a dataset is mounted for this process; None if there is none, or
    if this process could not load the preload library."""
    prefixes = [
        value
        for name, value in os.environ.items()
        if name == _PREFIX or name.startswith(_PREFIX + "_")
    ]
    device = device_number(index.dataset_id)
    return next((each for each in sorted(prefixes) if _device_of(each) == device), None)


def _device_of(path: str) -> int:
    try:
        return os.stat(path).st_dev
    except OSError:
        return 0


class MappedPacks:
    """Reads files from packs, each of which it maps on first use. Any thread may call its
    methods."""

    def __init__(self, index: Dataset) -> None:
        self._index = index
        self._mapped: dict[int, mmap.mmap] = {}
        self._read = {pack: partial(self._bytes, pack) for pack in range(index.pack_count)}

    def content(self, record: int) -> bytes:
        """Returns the content of a regular file. Raises DatasetDamaged if its checksum is wrong."""
        row = self._index.record(record)
        if row.codec == lib.FAN_CODEC_STORE:
            content = self._bytes(row.pack, row.offset, row.logical_size)
        else:
            content = self._decoded(record, 0, row.logical_size)
        if xxhash.xxh3_64_intdigest(content) != row.checksum:
            raise self._damaged(record)
        return content

    def view(self, record: int) -> memoryview:
        """Returns the content of a regular file as a read-only view. If the file is stored
        uncompressed, the view is of the mapped pack itself. Raises DatasetDamaged."""
        row = self._index.record(record)
        if row.codec != lib.FAN_CODEC_STORE or row.logical_size == 0:
            return memoryview(self.content(record))
        view = self._view(row.pack, row.offset, row.logical_size)
        if xxhash.xxh3_64_intdigest(view) != row.checksum:
            raise self._damaged(record)
        return view

    def read_into(self, records: NDArray[np.int64], rows: NDArray[np.uint8]) -> None:
        """Copies each file into a row of `rows`; all files are as long as a row. Raises
        DatasetDamaged."""
        found = self._index.records[records]
        columns = [found[name].tolist() for name in ("pack", "offset", "codec", "checksum")]
        size = rows.shape[1]
        for row, record, pack, offset, codec, checksum in zip(
            rows, records.tolist(), *columns, strict=True
        ):
            if codec != lib.FAN_CODEC_STORE:
                row.data[:] = self.content(record)
                continue
            content = self._view(pack, offset, size)
            if len(content) != size:
                raise self._damaged(record)
            row.data[:] = content
            if xxhash.xxh3_64_intdigest(row.data) != checksum:
                raise self._damaged(record)

    def part(self, record: int, offset: int, size: int) -> bytes:
        """Returns `size` bytes from `offset` on, fewer at the end. Does not check the checksum.
        Raises DatasetDamaged if the pack is too short or encoded content cannot be decoded."""
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
        return bytes(self._view(pack, offset, length)) if length else b""

    def _view(self, pack: int, offset: int, length: int) -> memoryview:
        return memoryview(self._map(pack))[offset : offset + length]

    def _map(self, pack: int) -> mmap.mmap:
        mapped = self._mapped.get(pack)
        if mapped is None:
            # Two threads may map the same pack at once; only one of the mappings is kept.
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
        path = self._index.pack_shown(row.pack)
        name = self._index.relpath(record).decode("utf-8", "backslashreplace")
        return DatasetDamaged(path, f"content of {name}", row.offset, "damaged")

    def close(self) -> None:
        """Unmaps the packs, except those that views still use."""
        for mapped in self._mapped.values():
            try:
                mapped.close()
            except BufferError:
                continue
        self._mapped.clear()


class FarPacks(MappedPacks):
    """Reads files from packs in a bucket, a range for each file or block."""

    def _view(self, pack: int, offset: int, length: int) -> memoryview:
        bucket, size = self._index.bucket, self._index.pack_info(pack).file_bytes
        assert bucket is not None
        length = max(0, min(length, size - offset))
        return memoryview(bucket.read(pack_name(pack), offset, length, size))


class ServedContent:
    """Reads files through a mount of a job. Any thread may call its methods."""

    def __init__(self, index: Dataset, prefix: str) -> None:
        self._index = index
        self._prefix = os.fsencode(prefix)

    def content(self, record: int) -> bytes:
        """Returns the content of a regular file. Raises DatasetDamaged if its checksum is wrong, or
        OSError if the job cannot read it."""
        row = self._index.record(record)
        content = self.part(record, 0, row.logical_size)
        is_right = self._index.is_planned or xxhash.xxh3_64_intdigest(content) == row.checksum
        if not is_right:  # of originals there is no checksum
            raise DatasetDamaged(os.fsdecode(self._path(record)), "content", 0)
        return content

    def view(self, record: int) -> memoryview:
        """Returns the content of a regular file as a read-only view. Raises as `content` does."""
        return memoryview(self.content(record))

    def read_into(self, records: NDArray[np.int64], rows: NDArray[np.uint8]) -> None:
        """Reads each file into a row of `rows`; all files are as long as a row. Raises as `content`
        does."""
        for row, record in zip(rows, records.tolist(), strict=True):
            row.data[:] = self.content(record)

    def part(self, record: int, offset: int, size: int) -> bytes:
        """Returns `size` bytes from `offset` on, fewer at the end. Raises OSError."""
        with open(self._path(record), "rb", buffering=0) as stream:
            stream.seek(offset)
            return stream.read(size) or b""

    def _path(self, record: int) -> bytes:
        return self._prefix + b"/" + self._index.relpath(record)

    def close(self) -> None:
        """Does nothing: no file stays open."""


class FarObjects(ServedContent):
    """Reads the objects of a listing, as they were listed."""

    def part(self, record: int, offset: int, size: int) -> bytes:
        """Returns `size` bytes from `offset` on, fewer at the end. Raises DatasetDamaged if the
        object changed, BucketRefused."""
        row, bucket = self._index.record(record), self._index.bucket
        assert bucket is not None
        count = max(0, min(size, row.logical_size - offset))
        name = self._index.relpath(record).decode("utf-8", "surrogateescape")
        return bucket.read(name, offset, count, row.logical_size, row.checksum)


def content_of(index: Dataset) -> MappedPacks | ServedContent:
    """Returns the way to a dataset's content that this process has."""
    prefix = mount_of(index)
    if prefix is not None:
        return ServedContent(index, prefix)
    if index.bucket is None:
        return MappedPacks(index)
    return FarObjects(index, "") if index.is_planned else FarPacks(index)


class ContentStream(io.RawIOBase):
    """A file object that reads on demand. read(offset, size): a function that returns bytes of the
    file; size: the size of the file; name: its path."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, name: str) -> None:
        self._read = read
        self._size = size
        self._at = 0
        self.name = name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Like io.IOBase.seek. Raises ValueError for a position before the start."""
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}
        if whence not in bases:
            raise ValueError(f"whence is {whence}; allowed are 0, 1 and 2")
        if bases[whence] + offset < 0:
            raise ValueError(f"offset {offset} lies before the start of {self.name}")
        self._at = bases[whence] + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        part = self._read(self._at, len(buffer))
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)

    def readall(self) -> bytes:
        part = self._read(self._at, max(0, self._size - self._at))
        self._at += len(part)
        return part
