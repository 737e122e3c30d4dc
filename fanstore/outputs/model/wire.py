"""Requests of clients and their answers, as bytes (csrc/format/output_format.h) and as objects.

Any process of this user may connect, so a request is used only after every length in it was checked
against the number of received bytes."""

from __future__ import annotations

import enum
import errno
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fanstore._native import ffi, lib
from fanstore.outputs.model.entries import Entry, failure


def _enum(name: str) -> Any:
    """Returns a C enum as a Python one, without FAN_OUTPUT_ in its names."""
    values = ffi.typeof(f"enum fan_output_{name.lower()}").relements
    return enum.IntEnum(name, {each.removeprefix("FAN_OUTPUT_"): values[each] for each in values})


Op = _enum("Op")  # the operations that a client can ask for
Where = _enum("Where")  # the kinds of answers

_CODES = {"uint16_t": "H", "int32_t": "i", "uint32_t": "I", "int64_t": "q", "uint64_t": "Q"}


def _codes(kind: Any) -> str:
    return "".join(
        _codes(field.type) if field.type.kind == "struct" else _CODES[field.type.cname]
        for _, field in kind.fields
    )


def _packer(name: str) -> struct.Struct:
    """Returns what packs a C struct that has no padding, several times as quickly as cffi."""
    packer = struct.Struct("=" + _codes(ffi.typeof(f"struct fan_output_{name}")))
    assert packer.size == ffi.sizeof(f"struct fan_output_{name}")
    return packer


_MAGIC = int(lib.FAN_OUTPUT_MAGIC)
_PATH_MAX = int(lib.FAN_OUTPUT_PATH_MAX)
_OPS = frozenset(int(op) for op in Op)
_REQUEST, _ANSWER, _NAME = (_packer(name) for name in ("request", "answer", "name"))
HEAD_BYTES = _REQUEST.size
REQUEST_MAX_BYTES = HEAD_BYTES + 2 * _PATH_MAX
_NO_ATTR = (0,) * 10
_NAME_ALIGN_BYTES = 8


class Request(NamedTuple):
    """A request of a client. Has the fields of struct fan_output_request; paths are relative to
    their mounts."""

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

    def about_other(self) -> Request:
        """Returns the same request with its second path in place of the first."""
        return self._replace(view=self.other_view, path=self.other)


@dataclass(frozen=True)
class Answer:
    """The answer to a request that did not fail. where: FAN_OUTPUT_DONE or another kind; entry: the
    source of `attr`; listing: for LIST, names with their types and inode numbers, instead of a
    text. fd: sent with the answer and then closed; -1: none."""

    where: int
    entry: Entry | None = None
    text: bytes = b""
    listing: tuple[tuple[bytes, int, int], ...] = ()
    fd: int = -1


def request_bytes(head: bytes) -> int:
    """Returns the length of a whole request, given its first HEAD_BYTES. Raises OSError (EINVAL) if
    they are not the beginning of a request."""
    magic, *_, path_bytes, other_bytes, _, _, _ = _REQUEST.unpack_from(head)
    if magic != _MAGIC or path_bytes > _PATH_MAX or other_bytes > _PATH_MAX:
        raise failure(errno.EINVAL)
    return int(HEAD_BYTES + path_bytes + other_bytes)


def parse(data: bytes, mount_count: int) -> Request:
    """Returns the request in `data`, which must have the length request_bytes. Raises OSError
    (EINVAL) for a wrong length, an unknown operation or mount, or a NUL in a path."""
    if len(data) < HEAD_BYTES or len(data) != request_bytes(data):
        raise failure(errno.EINVAL)
    _, op, view, other_view, *about, path_bytes, _, size, atime_ns, mtime_ns = _REQUEST.unpack_from(
        data
    )
    path_end = HEAD_BYTES + path_bytes
    path, other = data[HEAD_BYTES:path_end], data[path_end:]
    known = op in _OPS and view < mount_count and other_view < mount_count
    if not known or b"\0" in path or b"\0" in other:
        raise failure(errno.EINVAL)
    how, flags, mode, uid, gid, change = about
    return Request(
        op, view, other_view, how, flags, mode, uid, gid, change, size, atime_ns, mtime_ns,
        path, other,
    )  # fmt: skip


def serialise(answer: Answer) -> bytes:
    """Returns the bytes of an answer."""
    text = listing_text(answer.listing) if answer.listing else answer.text
    attr = _NO_ATTR if answer.entry is None else _attr_fields(answer.entry)
    return _ANSWER.pack(_MAGIC, 0, answer.where, -1, len(text), *attr) + text


def serialise_error(number: int) -> bytes:
    """Returns the bytes of an answer that fails a request with an errno."""
    return _ANSWER.pack(_MAGIC, number, 0, -1, 0, *_NO_ATTR)


def _attr_fields(entry: Entry) -> tuple[int, ...]:
    """Returns the fields of a struct fan_output_attr for an entry."""
    mode, uid, gid, size, blocks, *times_ns = entry.attr
    nlink = 2 if entry.is_directory else 1
    return (entry.inode, size, blocks, *times_ns, mode, uid, gid, nlink)


def listing_text(listing: Iterable[tuple[bytes, int, int]]) -> bytes:
    """Returns the text of a listing: for each entry a struct fan_output_name and the name."""
    parts: list[bytes] = []
    for name, kind, inode in listing:
        head = _NAME.pack(inode, kind, len(name))
        parts += (head, name, bytes(-len(name) % _NAME_ALIGN_BYTES))
    return b"".join(parts)
