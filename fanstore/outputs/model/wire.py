"""Requests of clients and their answers (csrc/format/output_format.h), from bytes and to bytes.

Any process of this user may connect, so a request is taken for what it is only after every length
in it has been checked against what is there.
"""

from __future__ import annotations

import enum
import errno
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fanstore._native import ffi, lib
from fanstore.outputs.model.entries import Entry, failure


class Op(enum.IntEnum):
    """What a client can ask: the values of enum fan_output_op."""

    LOOKUP = lib.FAN_OUTPUT_LOOKUP
    LIST = lib.FAN_OUTPUT_LIST
    OPEN = lib.FAN_OUTPUT_OPEN
    MKDIR = lib.FAN_OUTPUT_MKDIR
    MKNOD = lib.FAN_OUTPUT_MKNOD
    SYMLINK = lib.FAN_OUTPUT_SYMLINK
    LINK = lib.FAN_OUTPUT_LINK
    UNLINK = lib.FAN_OUTPUT_UNLINK
    RMDIR = lib.FAN_OUTPUT_RMDIR
    RENAME = lib.FAN_OUTPUT_RENAME
    CHANGE = lib.FAN_OUTPUT_CHANGE
    TRUNCATE = lib.FAN_OUTPUT_TRUNCATE
    SETTLE = lib.FAN_OUTPUT_SETTLE
    HOLD = lib.FAN_OUTPUT_HOLD
    HAND_ON = lib.FAN_OUTPUT_HAND_ON
    LEAVE = lib.FAN_OUTPUT_LEAVE
    ABANDON = lib.FAN_OUTPUT_ABANDON
    REFRESH = lib.FAN_OUTPUT_REFRESH
    NAME = lib.FAN_OUTPUT_NAME


class Where(enum.IntEnum):
    """What an answer says: the values of enum fan_output_where."""

    DONE = lib.FAN_OUTPUT_DONE
    HERE = lib.FAN_OUTPUT_HERE
    ELSEWHERE = lib.FAN_OUTPUT_ELSEWHERE
    CREATE = lib.FAN_OUTPUT_CREATE
    EXISTING = lib.FAN_OUTPUT_EXISTING
    CUT = lib.FAN_OUTPUT_CUT
    DIRECTORY = lib.FAN_OUTPUT_DIRECTORY
    SETTLED = lib.FAN_OUTPUT_SETTLED
    OPEN_YET = lib.FAN_OUTPUT_OPEN_YET


ANNOUNCED = int(lib.FAN_OUTPUT_ANNOUNCED)
_MAGIC = int(lib.FAN_OUTPUT_MAGIC)
_PATH_MAX = int(lib.FAN_OUTPUT_PATH_MAX)
_OBJECTS_MAX = int(lib.FAN_OUTPUT_OBJECTS_MAX)
_OPS = {int(op) for op in Op}
HEAD_BYTES = int(ffi.sizeof("struct fan_output_request"))
REQUEST_MAX_BYTES = HEAD_BYTES + 2 * _PATH_MAX + 8 * _OBJECTS_MAX
_ANSWER = ffi.typeof("struct fan_output_answer *")
_REQUEST = ffi.typeof("struct fan_output_request *")
_NAME = ffi.typeof("struct fan_output_name *")
_NAME_ALIGN_BYTES = 8
_TYPE_SHIFT = 12  # from st_mode to d_type, as IFTODT(3) has it


@dataclass(frozen=True)
class Request:
    """What a client asks. Fields as in struct fan_output_request; paths relative to their mounts.
    pid, peer_uid: of the process, as the kernel has them; or the pid it asks for."""

    op: int
    view: int = 0
    other_view: int = 0
    how: int = 0
    flags: int = 0
    mode: int = 0
    uid: int = 0
    gid: int = 0
    change: int = 0
    size: int = 0
    atime_ns: int = 0
    mtime_ns: int = 0
    path: bytes = b""
    other: bytes = b""
    objects: tuple[int, ...] = ()
    pid: int = 0
    peer_uid: int = 0


@dataclass(frozen=True)
class Answer:
    """What it is told, unless it failed (an OSError). where: one of FAN_OUTPUT_DONE and so on;
    entry: fills `attr`; fresh: nlink is 0 (CREATE of a free name, where the umask applies to the
    mode); listing: LIST's names, instead of a text."""

    where: int
    entry: Entry | None = None
    text: bytes = b""
    fresh: bool = False
    listing: tuple[tuple[bytes, Entry], ...] = ()


def request_bytes(head: bytes) -> int:
    """The length of a whole request, told by its first HEAD_BYTES. Raises OSError (EINVAL) for what
    is none."""
    fields = ffi.from_buffer(_REQUEST, head)
    lengths = (fields.path_bytes, fields.other_bytes)
    if fields.magic != _MAGIC or max(lengths) > _PATH_MAX or fields.object_count > _OBJECTS_MAX:
        raise failure(errno.EINVAL)
    return int(HEAD_BYTES + sum(lengths) + 8 * fields.object_count)


def parse(data: bytes, mount_count: int, pid: int = 0, peer_uid: int = 0) -> Request:
    """A request of exactly request_bytes. Raises OSError (EINVAL): an unknown operation or mount, a
    NUL in a path."""
    if len(data) < HEAD_BYTES or len(data) != request_bytes(data):
        raise failure(errno.EINVAL)
    head = ffi.from_buffer(_REQUEST, data)
    path_end = HEAD_BYTES + head.path_bytes
    other_end = path_end + head.other_bytes
    path, other = data[HEAD_BYTES:path_end], data[path_end:other_end]
    known = head.op in _OPS and head.view < mount_count and head.other_view < mount_count
    if not known or b"\0" in path or b"\0" in other:
        raise failure(errno.EINVAL)
    objects: tuple[int, ...] = ()
    if head.object_count:
        objects = tuple(memoryview(data)[other_end:].cast("Q"))
    return Request(
        head.op, head.view, head.other_view, head.how, head.flags, head.mode, head.uid, head.gid,
        head.change, head.size, head.atime_ns, head.mtime_ns, path, other, objects,
        head.behalf or pid, peer_uid,
    )  # fmt: skip


def serialise(answer: Answer) -> bytes:
    """Returns the bytes of an answer."""
    text = listing_text(answer.listing) if answer.listing else answer.text
    out = ffi.new(_ANSWER)
    out.magic = _MAGIC
    out.where = answer.where
    out.text_bytes = len(text)
    if answer.entry is not None:
        fill_attr(out.attr, answer.entry)
        out.attr.nlink *= not answer.fresh  # the file is yet to be made
    return bytes(ffi.buffer(out)) + text


def serialise_error(number: int) -> bytes:
    """Returns the bytes of an answer that refuses with this errno."""
    return bytes(ffi.buffer(ffi.new(_ANSWER, {"magic": _MAGIC, "error": number})))


def fill_attr(out: Any, entry: Entry) -> None:
    """Sets a struct fan_output_attr from an entry."""
    attr = entry.attr
    out.ino = entry.inode
    out.object = entry.object_id if entry.is_file else 0
    out.size = attr.size
    out.blocks = attr.blocks
    out.atime_ns = attr.atime_ns
    out.mtime_ns = attr.mtime_ns
    out.ctime_ns = attr.ctime_ns
    out.mode = attr.mode
    out.uid = attr.uid
    out.gid = attr.gid
    out.nlink = 2 if entry.is_directory else 1


def listing_text(listing: Iterable[tuple[bytes, Entry]]) -> bytes:
    """Returns the text of a listing: for each entry a struct fan_output_name and the name."""
    parts = []
    for name, entry in listing:
        parts.append(_name_head(entry.inode, entry.attr.mode >> _TYPE_SHIFT & 15, len(name)))
        parts.append(name + bytes(-len(name) % _NAME_ALIGN_BYTES))
    return b"".join(parts)


def _name_head(inode: int, kind: int, name_bytes: int) -> bytes:
    head = ffi.new(_NAME)
    head.ino, head.type, head.name_bytes = inode, kind, name_bytes
    return bytes(ffi.buffer(head))
