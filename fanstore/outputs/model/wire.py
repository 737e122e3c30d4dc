"""Requests of clients and their answers, as bytes (csrc/format/output_format.h) and as objects.

Any process of this user may connect, so a request is used only after every length in it was checked
against the number of received bytes."""

from __future__ import annotations

import enum
import errno
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from fanstore._native import ffi, lib
from fanstore.outputs.model.entries import Entry, failure


def _enum(name: str) -> Any:
    """Returns a C enum as a Python one, without FAN_OUTPUT_ in its names."""
    values = ffi.typeof(f"enum fan_output_{name.lower()}").relements
    return enum.IntEnum(name, {each.removeprefix("FAN_OUTPUT_"): values[each] for each in values})


Op = _enum("Op")  # the operations that a client can ask for
Where = _enum("Where")  # the kinds of answers

_MAGIC = int(lib.FAN_OUTPUT_MAGIC)
_PATH_MAX = int(lib.FAN_OUTPUT_PATH_MAX)
_OPS = frozenset(int(op) for op in Op)
HEAD_BYTES = int(ffi.sizeof("struct fan_output_request"))
REQUEST_MAX_BYTES = HEAD_BYTES + 2 * _PATH_MAX
_ANSWER = ffi.typeof("struct fan_output_answer *")
_REQUEST = ffi.typeof("struct fan_output_request *")
_NAME = ffi.typeof("struct fan_output_name *")
_NAME_ALIGN_BYTES = 8


@dataclass(frozen=True)
class Request:
    """A request of a client. Has the fields of struct fan_output_request; paths are relative to
    their mounts. peer_uid: the user of the client's process, from the kernel. pid: that process, or
    the one for which it asks."""

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
    pid: int = 0
    peer_uid: int = 0

    def about_other(self) -> Request:
        """Returns the same request with its second path in place of the first."""
        return replace(self, view=self.other_view, path=self.other)


_COPIED = [each.name for each in fields(Request) if each.name in dict(_REQUEST.item.fields)]


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
    fields = ffi.from_buffer(_REQUEST, head)
    lengths = (fields.path_bytes, fields.other_bytes)
    if fields.magic != _MAGIC or max(lengths) > _PATH_MAX:
        raise failure(errno.EINVAL)
    return int(HEAD_BYTES + sum(lengths))


def parse(data: bytes, mount_count: int, pid: int = 0, peer_uid: int = 0) -> Request:
    """Returns the request in `data`, which must have the length request_bytes. Raises OSError
    (EINVAL) for a wrong length, an unknown operation or mount, or a NUL in a path."""
    if len(data) < HEAD_BYTES or len(data) != request_bytes(data):
        raise failure(errno.EINVAL)
    head = ffi.from_buffer(_REQUEST, data)
    path_end = HEAD_BYTES + head.path_bytes
    path, other = data[HEAD_BYTES:path_end], data[path_end:]
    known = head.op in _OPS and head.view < mount_count and head.other_view < mount_count
    if not known or b"\0" in path or b"\0" in other:
        raise failure(errno.EINVAL)
    copied = {name: getattr(head, name) for name in _COPIED}
    return Request(**copied, path=path, other=other, pid=head.behalf or pid, peer_uid=peer_uid)


def serialise(answer: Answer) -> bytes:
    """Returns the bytes of an answer."""
    text = listing_text(answer.listing) if answer.listing else answer.text
    out = ffi.new(_ANSWER, {"magic": _MAGIC, "where": answer.where, "text_bytes": len(text)})
    if answer.entry is not None:
        out.attr = attr_fields(answer.entry)
    return bytes(ffi.buffer(out)) + text


def serialise_error(number: int) -> bytes:
    """Returns the bytes of an answer that fails a request with an errno."""
    return bytes(ffi.buffer(ffi.new(_ANSWER, {"magic": _MAGIC, "error": number})))


def attr_fields(entry: Entry) -> dict[str, int]:
    """Returns the fields of a struct fan_output_attr for an entry."""
    return {
        **entry.attr._asdict(),
        "ino": entry.inode,
        "nlink": 2 if entry.is_directory else 1,
    }


def listing_text(listing: Iterable[tuple[bytes, int, int]]) -> bytes:
    """Returns the text of a listing: for each entry a struct fan_output_name and the name."""
    parts: list[bytes] = []
    for name, kind, inode in listing:
        head = ffi.new(_NAME, (inode, kind, len(name)))
        parts += (bytes(ffi.buffer(head)), name, bytes(-len(name) % _NAME_ALIGN_BYTES))
    return b"".join(parts)
