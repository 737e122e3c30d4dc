"""The inputs of a mount as the outputs see them: what is there already, and which of its
directories clients ask about."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from fanstore._native import ffi
from fanstore.dataset import Dataset

_KINDS = {stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


class DatasetInputs:
    """The Inputs (model/interfaces.py) of one mounted dataset."""

    def __init__(self, dataset: Dataset, prefixes: Sequence[bytes], touched: _Bits) -> None:
        self.prefixes: Sequence[bytes] = list(prefixes)
        self._dataset = dataset
        self._touched = touched

    def kind(self, path: bytes) -> str:
        """Returns what the path is: "missing", "directory", "link" or "file"."""
        record = self.record(path)
        if record is None:
            return "missing"
        return _KINDS.get(stat.S_IFMT(self._dataset.record(record).mode), "file")

    def target(self, path: bytes) -> bytes:
        """Returns the target of a symbolic link."""
        return self._dataset.target(self._dataset.lookup(path))

    def record(self, path: bytes) -> int | None:
        """Returns the record id of the path in the index, None if it is missing."""
        try:
            return self._dataset.lookup(path)
        except FileNotFoundError:
            return None

    def touch(self, record: int) -> None:
        """Has clients of this node ask the daemon for missing names in that directory from now on.
        Raises OSError where the disk does not take the bit."""
        self._touched.add(record)


class _Bits:
    """A bitmap in a file. A full disk is an error when a bit is set, where a store into a mapping
    would be SIGBUS."""

    def __init__(self, fd: int, start: int) -> None:
        self._fd = fd
        self._start = start

    def __contains__(self, bit: int) -> bool:
        return bool(self._byte_of(bit) >> bit % 8 & 1)

    def add(self, bit: int) -> None:
        """Sets a bit; for one thread of one process."""
        if bit not in self:
            value = self._byte_of(bit) | 1 << bit % 8
            os.pwrite(self._fd, bytes([value]), self._start + bit // 8)

    def _byte_of(self, bit: int) -> int:
        return os.pread(self._fd, 1, self._start + bit // 8)[0]


class TouchedBits:
    """The bitmaps of touched directories in a job segment (csrc/format/shm_format.h), by mount.
    Only one process writes them. Close when done."""

    def __init__(self, segment: str | os.PathLike[str]) -> None:
        self._fd = os.open(segment, os.O_RDWR | os.O_CLOEXEC)
        head = os.pread(self._fd, ffi.sizeof("struct fan_job_header"), 0)
        header = ffi.from_buffer("struct fan_job_header *", head)
        size = ffi.sizeof("struct fan_mount") * header.mount_count
        table = os.pread(self._fd, size, header.mounts_offset)
        mounts = ffi.from_buffer("struct fan_mount[]", table)
        self.of_mount = [_Bits(self._fd, int(mount.touched_offset)) for mount in mounts]

    def close(self) -> None:
        """Closes the segment; the bitmaps cannot be used any more."""
        os.close(self._fd)
