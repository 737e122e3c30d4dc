"""The Table 3 layout: the bytes before the data of each file. docs/format.md specifies it.

All numbers are little-endian. A partition is a 4-byte count, then for each file a header of 408
bytes and its data.
"""

from __future__ import annotations

import stat
import struct
from dataclasses import dataclass

COUNT_BYTES = 4
COUNT_MAX = (1 << 31) - 1
NAME_BYTES = 256
STAT_AT = NAME_BYTES
STAT_BYTES = 144
COMPRESSED_AT = STAT_AT + STAT_BYTES
HEADER_BYTES = COMPRESSED_AT + 8

# struct stat of x86-64 Linux: dev, ino, nlink | mode, uid, gid, padding | rdev | size, blksize,
# blocks, then atim, mtim and ctim as seconds and nanoseconds, and three reserved words.
_STAT = struct.Struct("<QQQIIIIQqqqqqqqqqqqq")
_MODE_AT, _SIZE_AT, _MTIM_AT = 24, 48, 88
_NS_PER_S = 1_000_000_000
_TIME_MAX_S = (1 << 63) // _NS_PER_S - 1


class BadField(Exception):
    """A field of a header has a value that is not allowed. The message has its name, its offset in
    the header, and the reason."""

    def __init__(self, field: str, offset: int, reason: str) -> None:
        super().__init__(field, offset, reason)
        self.field = field
        self.offset = offset
        self.reason = reason


class Compressed(Exception):
    """The data of a file is compressed."""


@dataclass(frozen=True)
class FileHeader:
    """The header of one file. `name` is as stored, not in normal form."""

    name: bytes
    size: int
    mode: int
    mtime_ns: int
    uid: int = 0
    gid: int = 0
    inode: int = 0
    nlink: int = 1


def pack_file_header(header: FileHeader) -> bytes:
    """Returns the 408 bytes that precede a file's uncompressed data. The name must fit."""
    seconds, nanoseconds = divmod(header.mtime_ns, _NS_PER_S)
    packed = _STAT.pack(
        0, header.inode, header.nlink, header.mode, header.uid, header.gid, 0, 0, header.size,
        4096, -(-header.size // 512), *(seconds, nanoseconds) * 3, 0, 0, 0,
    )  # fmt: skip
    return header.name.ljust(NAME_BYTES, b"\0") + packed + bytes(8)


def _name(raw: bytes) -> bytes:
    name, nul, _ = raw[:NAME_BYTES].partition(b"\0")
    if not nul:
        raise BadField("name", 0, "no NUL within 256 bytes")
    if not name:
        raise BadField("name", 0, "empty")
    return name


def unpack_file_header(raw: bytes) -> FileHeader:
    """Reads a header of 408 bytes. Raises BadField, or Compressed."""
    name = _name(raw)
    fields = _STAT.unpack_from(raw, STAT_AT)
    inode, nlink, mode, uid, gid, size = (*fields[1:6], fields[8])
    seconds, nanoseconds = fields[13:15]
    if not stat.S_ISREG(mode):
        raise BadField("stat.st_mode", STAT_AT + _MODE_AT, "not a regular file")
    if size < 0:
        raise BadField("stat.st_size", STAT_AT + _SIZE_AT, "negative")
    if not (abs(seconds) <= _TIME_MAX_S and 0 <= nanoseconds < _NS_PER_S):
        raise BadField("stat.st_mtim", STAT_AT + _MTIM_AT, "not a time")
    if any(raw[COMPRESSED_AT:HEADER_BYTES]):
        raise Compressed
    mode = stat.S_IFREG | stat.S_IMODE(mode)
    mtime_ns = seconds * _NS_PER_S + nanoseconds
    return FileHeader(name, size, mode, mtime_ns, uid, gid, inode, nlink)
