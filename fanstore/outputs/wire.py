"""Requests of clients and their answers (csrc/format/output_format.h)."""

from __future__ import annotations

from dataclasses import dataclass

from fanstore.outputs.entries import Entry


@dataclass(frozen=True)
class Request:
    """What a client asks. Fields as in struct fan_output_request; paths relative to their mounts.
    pid, peer_uid: of the process, as the kernel has them."""

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
    device: int = 0
    path: bytes = b""
    other: bytes = b""
    objects: tuple[int, ...] = ()
    pid: int = 0
    peer_uid: int = 0


@dataclass(frozen=True)
class Answer:
    """What it is told, unless it failed (an OSError). where: one of FAN_OUTPUT_DONE and so on;
    entry: fills `attr`; listing: LIST's names, instead of a text."""

    where: int
    entry: Entry | None = None
    text: bytes = b""
    listing: tuple[tuple[bytes, Entry], ...] = ()
