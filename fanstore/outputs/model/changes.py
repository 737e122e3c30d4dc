"""Changes of names that programs made themselves, as they stand in the log of the names segment
(csrc/format/names_format.h)."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

from fanstore._native import ffi, lib
from fanstore.outputs.model.entries import Attr, Place, split

CREATED = int(lib.FAN_CHANGE_CREATED)
PUBLISHED = int(lib.FAN_CHANGE_PUBLISHED)
MOVED = int(lib.FAN_CHANGE_MOVED)
REMOVED = int(lib.FAN_CHANGE_REMOVED)
MADE = int(lib.FAN_CHANGE_MADE)
ALTERED = int(lib.FAN_CHANGE_ALTERED)
ELSEWHERE = int(lib.FAN_CHANGE_ELSEWHERE)
# struct fan_change up to its attr, and that (struct fan_output_attr): unpacked here, not by cffi,
# since that takes several times as long and a program makes two changes a file.
_HEAD = struct.Struct("=IHHIIIIQQq")
_ATTR = struct.Struct("=16xQQqqqIII4x")
_RANK = struct.Struct("=4xI")  # at the beginning of struct fan_names_header
_HEAD_BYTES = _HEAD.size + _ATTR.size


class Change(NamedTuple):
    """One change (struct fan_change). elsewhere: another rank keeps the names. rank: whose program
    made it. object_id: what was created, published, moved or made. gone: the object that has no
    name any more, or 0. to: where it was moved to, else its own place. when_ns: the time of it."""

    kind: int
    elsewhere: bool
    rank: int
    place: Place
    to: Place
    object_id: int
    gone: int
    pid: int
    when_ns: int
    attr: Attr


def parse(log: bytes) -> Iterator[Change]:
    """Yields the changes in a piece of the log."""
    at = 0
    while at < len(log):
        size, kind, mount, pid, path_bytes, other_bytes, rank, object_id, gone, when_ns = (
            _HEAD.unpack_from(log, at)
        )
        path_at = at + _HEAD_BYTES
        place = to = split(mount, log[path_at : path_at + path_bytes])
        if other_bytes:
            other_at = path_at + (path_bytes + 7) // 8 * 8
            to = split(mount, log[other_at : other_at + other_bytes])
        file_bytes, blocks, atime_ns, mtime_ns, ctime_ns, mode, uid, gid = _ATTR.unpack_from(
            log, at + _HEAD.size
        )
        attr = Attr(mode, uid, gid, file_bytes, blocks, atime_ns, mtime_ns, ctime_ns)
        yield Change(
            kind & ~ELSEWHERE, bool(kind & ELSEWHERE), rank, place, to, object_id, gone, pid,
            when_ns, attr,
        )  # fmt: skip
        at += size


def left_in(segment: str) -> tuple[int, list[Change]]:
    """Returns the rank of a daemon that is gone, and the changes in the file of its names segment
    that it did not follow. Raises OSError."""
    fd = os.open(segment, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        if size == 0:
            return 0, []
        with mmap.mmap(fd, size, prot=mmap.PROT_READ) as mapping, memoryview(mapping) as view:
            base, log = ffi.from_buffer(view), ffi.new("const char **")
            length = lib.fan_names_log_left(base, size, log)
            data = bytes(ffi.buffer(log[0], length)) if length else b""
            ffi.release(base)
            rank = _RANK.unpack_from(view)[0] if length else 0
    finally:
        os.close(fd)
    return rank, list(parse(data))
