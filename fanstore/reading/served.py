"""The content of a dataset's files, through a mount in this process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import xxhash

from fanstore.dataset import Dataset
from fanstore.errors import DatasetDamaged

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ServedContent:
    """Reads files below a mount prefix. By any thread."""

    def __init__(self, index: Dataset, prefix: str) -> None:
        self._index = index
        self._prefix = os.fsencode(prefix)

    def content(self, record: int) -> bytes:
        """Returns the content of a regular file, whose checksum is right. Raises DatasetDamaged, or
        OSError where the job cannot have it."""
        row = self._index.record(record)
        content = self.part(record, 0, row.logical_size)
        if xxhash.xxh3_64_intdigest(content) != row.checksum:
            raise DatasetDamaged(os.fsdecode(self._path(record)), "content", 0)
        return content

    def view(self, record: int) -> memoryview:
        """Returns the same, read-only."""
        return memoryview(self.content(record))

    def read_into(self, records: NDArray[np.int64], rows: NDArray[np.uint8]) -> None:
        """Reads files, each as long as a row, into rows. Raises as `content` does."""
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
        """Nothing is held."""
