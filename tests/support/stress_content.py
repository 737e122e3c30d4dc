"""Content that says of itself whether it is whole, and a board of what must be where.

A file is one or more sections, each a header (who wrote it, as its how manieth, how long it is, its
checksum) and random bytes. Whatever is missing, mixed or too much shows.
"""

from __future__ import annotations

import mmap
import os
import random
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HEADER = struct.Struct("<8sIIQQ")  # magic, crc32 of what follows, writer, version, size
_MAGIC = b"section\n"


class Torn(Exception):
    """A file that nobody ever finished."""


def section(writer: int, version: int, size: int) -> bytes:
    """A section of `size` bytes behind its header."""
    payload = random.Random(version << 8 | writer).randbytes(size)
    facts = _HEADER.pack(_MAGIC, 0, writer, version, size)[12:]
    return _MAGIC + struct.pack("<I", zlib.crc32(payload, zlib.crc32(facts))) + facts + payload


def sections(content: bytes) -> Iterator[tuple[int, int, int]]:
    """(writer, version, whole length) of each section. Torn."""
    at = 0
    while at < len(content):
        if len(content) - at < _HEADER.size:
            raise Torn(f"{len(content) - at} bytes where a header begins at {at}")
        magic, crc, writer, version, size = _HEADER.unpack_from(content, at)
        end = at + _HEADER.size + size
        if magic != _MAGIC or end > len(content):
            raise Torn(f"{content[at : at + 32]!r} at {at} of {len(content)} bytes")
        if zlib.crc32(memoryview(content)[at + 12 : end]) != crc:
            raise Torn(f"section {writer}/{version} at {at} has other bytes")
        yield writer, version, end - at
        at = end


def version_of(content: bytes) -> int:
    """The newest version in a file's sections. Torn, also where it is empty."""
    found = [version for _, version, _ in sections(content)]
    if not found:
        raise Torn("empty")
    return max(found)


def read_pieces(path: str, chance: random.Random) -> bytes:
    """A file read in pieces; its length must be what fstat says before and after."""
    fd = os.open(path, os.O_RDONLY)
    try:
        before, parts = os.fstat(fd).st_size, []
        while part := os.read(fd, chance.choice([100, 4096, 70_000, 1 << 20])):
            parts.append(part)
        content, after = b"".join(parts), os.fstat(fd).st_size
    finally:
        os.close(fd)
    if not before == len(content) == after:
        raise Torn(f"{len(content)} bytes, of {before} and then {after}")
    return content


@dataclass(frozen=True)
class Sight:
    """What a slot of the board said. epoch: odd while its worker changes it; version 0: absent."""

    epoch: int
    version: int


class Board:
    """For each name that one worker alone changes, the version that is there; all processes share
    it. A name whose epoch is even, and the same before and after a look, did not change."""

    _SLOT = struct.Struct("<QQ")

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as stream:
            self._memory = mmap.mmap(stream.fileno(), 0)

    @staticmethod
    def make(path: Path, slots: int) -> None:
        """Makes the file of a board on which nothing is there yet."""
        path.write_bytes(bytes(Board._SLOT.size * slots))

    def look(self, slot: int) -> Sight:
        """What a slot says now."""
        return Sight(*self._SLOT.unpack_from(self._memory, slot * self._SLOT.size))

    def begin(self, slot: int) -> None:
        """A change begins."""
        sight = self.look(slot)
        assert sight.epoch % 2 == 0
        struct.pack_into("<Q", self._memory, slot * self._SLOT.size, sight.epoch + 1)

    def end(self, slot: int, version: int) -> None:
        """A change has ended with `version`."""
        sight = self.look(slot)
        assert sight.epoch % 2 == 1
        struct.pack_into("<Q", self._memory, slot * self._SLOT.size + 8, version)
        struct.pack_into("<Q", self._memory, slot * self._SLOT.size, sight.epoch + 1)
