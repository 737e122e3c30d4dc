"""Changes of names that programs made themselves, as they stand in the log of the names segment
(csrc/format/names_format.h)."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fanstore._native import ffi, lib
from fanstore.outputs.model.entries import Attr, Place, split

CREATED = int(lib.FAN_CHANGE_CREATED)
PUBLISHED = int(lib.FAN_CHANGE_PUBLISHED)
MOVED = int(lib.FAN_CHANGE_MOVED)
REMOVED = int(lib.FAN_CHANGE_REMOVED)
MADE = int(lib.FAN_CHANGE_MADE)
_CHANGE = ffi.typeof("struct fan_change *")
_HEAD_BYTES = int(ffi.sizeof("struct fan_change"))


@dataclass(frozen=True)
class Change:
    """One change (struct fan_change). object_id: what was created, published, moved or made. gone:
    the object that has no name any more, or 0. to: where it was moved to, else its own place.
    when_ns: the time of the change."""

    kind: int
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
        head = ffi.from_buffer(_CHANGE, memoryview(log)[at:])
        path_at = at + _HEAD_BYTES
        other_at = path_at + (head.path_bytes + 7) // 8 * 8
        place = split(head.mount, log[path_at : path_at + head.path_bytes])
        other = log[other_at : other_at + head.other_bytes]
        to = split(head.mount, other) if other else place
        yield Change(
            head.kind, place, to, head.object, head.gone, head.pid, head.when_ns, _attr(head.attr)
        )
        at += head.bytes


def left_in(segment: str) -> list[Change]:
    """Returns the changes in the file of a names segment that its daemon, which is gone, did not
    follow. Raises OSError."""
    fd = os.open(segment, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        if size == 0:
            return []
        with mmap.mmap(fd, size, prot=mmap.PROT_READ) as mapping, memoryview(mapping) as view:
            base, log = ffi.from_buffer(view), ffi.new("const char **")
            length = lib.fan_names_log_left(base, size, log)
            data = bytes(ffi.buffer(log[0], length)) if length else b""
            ffi.release(base)
    finally:
        os.close(fd)
    return list(parse(data))


def _attr(attr: Any) -> Attr:
    return Attr(
        attr.mode, attr.uid, attr.gid, attr.size, attr.blocks,
        attr.atime_ns, attr.mtime_ns, attr.ctime_ns,
    )  # fmt: skip
