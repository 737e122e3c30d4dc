"""A file of a dataset as a stream."""

from __future__ import annotations

import io
import os
from collections.abc import Callable


class ContentStream(io.RawIOBase):
    """Reads parts as they are asked for. read: returns so many bytes from an offset on; size: of
    the file, in bytes; name: its path."""

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
        """Moves as io.IOBase.seek says. Raises ValueError for a place before the start."""
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
