"""Announcements of loaders: messages from the code in fanstore/in_job to the socket `order` of the
job directory. Each is one message of JSON, with memory files for long parts."""

from __future__ import annotations

import array
import fcntl
import json
import mmap
import os
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fanstore.messages.channel import peer_pid
from fanstore.messages.message import Plain

ORDER_SOCKET = "order"
_MESSAGE_MAX_BYTES = 1 << 17
_PARTS = ("indices", "weights", "paths", "ranges", "chosen")
_PLACES = ("first", "more", "instead")
_PART_MAX_BYTES = 1 << 34
_WAIT_S = 1.0


@dataclass(frozen=True)
class Name:
    """A dataset's name, and its number in the notes of its samples."""

    text: str
    number: int


@dataclass(frozen=True)
class Announcement:
    """The reads of a loader in one epoch. pid: the loader's process. loader, dataset: their numbers
    in that process. sampler: parameters for foresight/order/samplers.py. parts: arrays of the
    sampler, and "paths", the dataset's files if they were not sent before; with "ranges" and
    "chosen", samples are ranges of bytes in these files (ranges.py). place: "first": the
    epoch begins; "more": these reads follow those announced before; "instead": these replace those
    announced before and not read yet. failed: why this process will announce nothing more, or "".
    name: the name of a dataset without a list of files."""

    pid: int
    loader: int
    dataset: int
    sampler: Mapping[str, Any]
    workers: int
    prefetch_factor: int
    in_order: bool
    files_per_sample: int
    parts: Mapping[str, mmap.mmap | bytes]
    failed: str = ""
    place: str = "first"
    name: Name | None = None


@contextmanager
def received(link: socket.socket) -> Iterator[Announcement | None]:
    """Yields the announcement that a connection sends; None if the process only says that it will
    send announcements. Raises ValueError for an invalid message, OSError if none comes."""
    link.settimeout(_WAIT_S)
    text, fds = _message(link)
    parts: dict[str, mmap.mmap | bytes] = {}
    try:
        text, _, tail = text.partition(b"\0")
        said = json.loads(text)
        if not isinstance(said, dict):
            raise ValueError("the message is no object")
        names = said.get("parts", [])
        if not isinstance(names, list) or len(names) != len(fds):
            raise ValueError(f"the message has {len(fds)} parts, and names {names!r}")
        for name, fd in zip(names, fds, strict=True):
            if name not in _PARTS or name in parts:
                raise ValueError(f"the message has a part {name!r}")
            parts[name] = _mapped(name, fd)
        if tail:
            parts.setdefault("indices", tail)
        yield _checked(said, peer_pid(link), parts) if said else None
    finally:
        for fd in fds:
            os.close(fd)


def _message(link: socket.socket) -> tuple[bytes, list[int]]:
    room = socket.CMSG_SPACE(len(_PARTS) * array.array("i").itemsize)
    text, control, flags, _ = link.recvmsg(_MESSAGE_MAX_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        for fd in fds:
            os.close(fd)
        raise ValueError("the message is too long")
    return text, list(fds)


def _mapped(name: str, fd: int) -> mmap.mmap:
    """Maps a memory file. The file must be sealed against shrinking, because reading behind its end
    would kill the daemon. Raises ValueError."""
    found = os.fstat(fd)
    if not fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
        raise ValueError(f"the part {name!r} is not sealed")
    if not stat.S_ISREG(found.st_mode) or not 0 < found.st_size <= _PART_MAX_BYTES:
        raise ValueError(f"the part {name!r} is no memory file of 1 to {_PART_MAX_BYTES} bytes")
    return mmap.mmap(fd, found.st_size, mmap.MAP_PRIVATE, mmap.PROT_READ)


def _checked(said: Plain, pid: int, parts: dict[str, mmap.mmap | bytes]) -> Announcement:
    failed = said.get("failed", "")
    if not isinstance(failed, str):
        raise ValueError(f"failed is {failed!r}; allowed is a text")
    if failed:
        return Announcement(pid, 0, 0, {}, 0, 1, True, 1, {}, failed[:500])
    sampler, in_order = said.get("sampler"), said.get("in_order")
    if not isinstance(sampler, dict) or not isinstance(in_order, bool):
        raise ValueError(f"sampler is {type(sampler).__name__}, in_order {in_order!r}")
    place = sampler.get("place", "first")
    if place not in _PLACES:
        raise ValueError(f"place is {place!r}; allowed are {', '.join(_PLACES)}")
    return Announcement(
        pid,
        _number(said, "loader", -1, 1 << 20),
        _number(said, "dataset", -1, 1 << 20),
        sampler,
        _number(said, "workers", 0, 1 << 16),
        _number(said, "prefetch_factor", 1, 1 << 20),
        in_order,
        _number(said, "files_per_sample", 1, 64) if "paths" in parts else 1,
        parts,
        place=place,
        name=_name(said),
    )


def _name(said: Plain) -> Name | None:
    name = said.get("name")
    if name is None:
        return None
    if not isinstance(name, list) or [type(each) for each in name] != [str, int]:
        raise ValueError(f"name is {name!r}; allowed are a text and a number")
    return Name(*name)


def _number(said: Plain, name: str, lowest: int, highest: int) -> int:
    value = said.get(name)
    if type(value) is not int or not lowest <= value <= highest:
        raise ValueError(f"{name} is {value!r}; allowed are {lowest} to {highest}")
    return value
