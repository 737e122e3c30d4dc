"""Makes arrays with an element for each of very many entries, in memory that the kernel can
reclaim.

Small arrays are on the heap. Larger ones are in nameless files in a scratch directory; the kernel
frees such a file when the program ends, in whatever way."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from fanstore._native import check, ffi, lib
from fanstore.arrays import np
from fanstore.errors import FanstoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The number of entries that are processed in one step.
PIECE = 1 << 16


def pieces(count: int) -> Iterator[slice]:
    """Yields slices that together cover the positions 0 to `count` - 1."""
    for first in range(0, count, PIECE):
        yield slice(first, min(first + PIECE, count))


class ArrayRoom:
    """Makes arrays. The files of large ones are in `directory`; if it is None, all arrays are on
    the heap. Close it when no more arrays are needed; existing arrays stay.

    heap_bytes: larger arrays, and sorted names, go to files. table_slots: the number of 8-byte
    slots in the hash tables for equal names and hard links."""

    heap_bytes = 16 << 20
    table_slots = 1 << 25

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory
        self.fd = -1
        if directory is not None:
            self.fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._rooms: WeakSet[Any] = WeakSet()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def zeros(self, count: int, dtype: Any) -> NDArray[Any]:
        """Returns an array of zeros. Raises FanstoreError if the disk is full."""
        kind = np.dtype(dtype)
        if self.fd < 0 or count * kind.itemsize <= self.heap_bytes:
            return np.zeros(count, kind)
        room = ffi.new("struct fan_room *")
        lib.fan_room_init(room, self.fd, self.heap_bytes)
        owner = ffi.gc(room, lib.fan_room_fini)
        self._rooms.add(owner)
        self.check(lib.fan_room_grow(owner, count * kind.itemsize))
        return self.borrow(owner, owner.base, count, kind)

    def numbers(self, count: int) -> NDArray[np.int64]:
        """Returns an array of the numbers from 0 to `count` - 1."""
        out = self.zeros(count, np.int64)
        for part in pieces(count):
            out[part] = np.arange(part.start, part.stop)
        return out

    def kept(self, values: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
        """Returns the values at the positions where `mask` is set."""
        out = self.zeros(int(np.count_nonzero(mask)), values.dtype)
        end = 0
        for part in self.pieces(len(values)):
            found = values[part][mask[part]]
            out[end : end + len(found)] = found
            end += len(found)
        return out

    def borrow(self, owner: Any, base: Any, count: int, dtype: Any) -> NDArray[Any]:
        """Returns an array over C memory at `base`. The array keeps `owner` alive, which owns that
        memory."""
        kind = np.dtype(dtype)
        if count == 0:
            return np.zeros(0, kind)
        # The destructor's default argument keeps `owner` alive as long as the pointer.
        pointer = ffi.gc(ffi.cast("char *", base), lambda _, kept=owner: None)
        return np.frombuffer(ffi.buffer(pointer, count * kind.itemsize), kind)

    def pieces(self, count: int) -> Iterator[slice]:
        """Yields the slices of `pieces`. After each one, drops the files' pages from memory."""
        for part in pieces(count):
            yield part
            for room in list(self._rooms):
                lib.fan_room_release(room)

    def check(self, rc: int) -> int:
        """Raises FanstoreError if a file of this object did not fit on the disk; otherwise like
        fanstore._native.check."""
        if -rc in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise FanstoreError(
                f"{self.directory}: {os.strerror(-rc)}: lists of very many files take about 250 "
                "bytes a file here while a dataset is made"
            )
        return check(rc, self.directory)
