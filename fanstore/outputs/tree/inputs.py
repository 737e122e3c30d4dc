"""The inputs of a mount, for outputs: which paths exist, and in which directories clients ask about
missing names."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from io import FileIO

from fanstore._native import ffi
from fanstore.dataset import Dataset

_KINDS = {stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


class Inputs:
    """The files of a mount's dataset. Paths are relative to the mount, in normal form. prefixes:
    the mount prefix first, then other spellings of it; absolute, without a slash at the end.
    touched_at: the offset, in the job's segment, of the mount's bitmap of touched directories."""

    def __init__(
        self, dataset: Dataset, prefixes: Sequence[bytes], segment: FileIO, touched_at: int
    ) -> None:
        self.prefixes: Sequence[bytes] = list(prefixes)
        self._dataset = dataset
        self._segment = segment
        self._touched_at = touched_at

    def kind(self, path: bytes) -> str:
        """Returns the kind of the path: "missing", "directory", "link" or "file"."""
        record = self.record(path)
        if record is None:
            return "missing"
        return _KINDS.get(stat.S_IFMT(self._dataset.record(record).mode), "file")

    def target(self, path: bytes) -> bytes:
        """Returns the target of a symbolic link."""
        return self._dataset.target(self._dataset.lookup(path))

    def record(self, path: bytes) -> int | None:
        """Returns the record id of the path in the index, or None if it is missing."""
        try:
            return self._dataset.lookup(path)
        except FileNotFoundError:
            return None

    def touch(self, record: int) -> None:
        """Makes clients of this node ask the daemon about missing names in the directory with this
        record from now on. Raises OSError if the disk cannot store the bit, where a store into a
        mapping would raise SIGBUS. For one thread of one process."""
        fd, at = self._segment.fileno(), self._touched_at + record // 8
        (byte,) = os.pread(fd, 1, at)
        os.pwrite(fd, bytes([byte | 1 << record % 8]), at)


def touched_bitmaps(segment: FileIO) -> list[int]:
    """Returns the offset of each mount's bitmap of touched directories in a job's segment
    (csrc/format/shm_format.h)."""
    head = os.pread(segment.fileno(), ffi.sizeof("struct fan_job_header"), 0)
    header = ffi.from_buffer("struct fan_job_header *", head)
    size = ffi.sizeof("struct fan_mount") * header.mount_count
    table = os.pread(segment.fileno(), size, header.mounts_offset)
    return [int(mount.touched_offset) for mount in ffi.from_buffer("struct fan_mount[]", table)]
