"""Keeps how far a rank's objects are on their way to the output directory, in memory and in a file
that outlives the daemon.

The file is a line of JSON for each step. It is not synced: it is for the death of processes, which
takes nothing from the page cache, and lies on the disk on which the objects lie.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fanstore._native import lib
from fanstore.outputs.model.entries import Entry, Place, split

JOURNAL = "outputs.journal"
_VERSION = 2  # of the journal, and of where the files of objects lie


class Identity(NamedTuple):
    """What tells a file in the output directory from another that was put in its place."""

    inode: int
    size: int
    mtime_ns: int

    @staticmethod
    def of(found: os.stat_result) -> Identity:
        """Takes the identity of a real file from its stat."""
        return Identity(found.st_ino, found.st_size, found.st_mtime_ns)


class Placed(NamedTuple):
    """Under which name the copy of an object was placed, and its identity there."""

    name: Place
    identity: Identity


class Lone(NamedTuple):
    """A directory or a link, which has no object. target: a link's, else None."""

    mode: int
    target: bytes | None

    @staticmethod
    def of(entry: Entry) -> Lone:
        """Returns what is noted of a directory or link."""
        return Lone(entry.attr.mode, entry.target if entry.is_link else None)


@dataclass
class Ledger:
    """What is known of a rank's objects. named: the name under which an object is published.
    drafts: the name under which one that is being written is to be. placed: objects that are in the
    output directory. stale: what was placed of objects that are gone. lone: directories and links
    of which this rank is the home rank. waiting: the sizes of objects that are named and not placed
    there."""

    named: dict[int, Place] = field(default_factory=dict)
    drafts: dict[int, Place] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    placed: dict[int, Placed] = field(default_factory=dict)
    stale: dict[Place, Identity] = field(default_factory=dict)
    lone: dict[Place, Lone] = field(default_factory=dict)
    named_bytes: int = 0
    waiting: dict[int, int] = field(default_factory=dict)
    waiting_bytes: int = 0

    def name(self, object_id: int, name: Place, size: int) -> None:
        """Notes the one name under which an object is published."""
        self.drafts.pop(object_id, None)
        self.named[object_id] = name
        self.named_bytes += size - self.sizes.get(object_id, 0)
        self.sizes[object_id] = size
        placed = self.placed.get(object_id)
        if placed is not None and placed.name == name:
            self._arrived(object_id)
        elif object_id not in self.waiting:
            self.waiting[object_id] = size
            self.waiting_bytes += size

    def place(self, object_id: int, name: Place, identity: Identity) -> None:
        """Notes that a copy of the object is in the output directory, under `name`."""
        if object_id not in self.named:
            self.stale[name] = identity
            return
        self.placed[object_id] = Placed(name, identity)
        self.stale.pop(name, None)
        if self.named.get(object_id) == name:
            self._arrived(object_id)

    def drop(self, object_id: int) -> None:
        """Notes that an object is gone: it was replaced or unlinked."""
        self.drafts.pop(object_id, None)
        self._arrived(object_id)
        self.named.pop(object_id, None)
        self.named_bytes -= self.sizes.pop(object_id, 0)
        placed = self.placed.pop(object_id, None)
        if placed is not None:
            self.stale[placed.name] = placed.identity

    def set_lone(self, name: Place, lone: Lone | None) -> None:
        """Notes the directory or link that has a name; None: there is none any more."""
        if lone is None:
            self.lone.pop(name, None)
        else:
            self.lone[name] = lone

    def _arrived(self, object_id: int) -> None:
        self.waiting_bytes -= self.waiting.pop(object_id, 0)


@dataclass(frozen=True)
class Header:
    """What a rescue needs to know of the job. root: the output directory; folders: of each mount,
    in it. started_ns: when the job began."""

    job_id: str
    root: bytes
    folders: tuple[bytes, ...]
    umask: int
    started_ns: int


_RESERVE_BYTES = 1 << 18
_KEPT_MOST_BYTES = 1 << 16  # with one more line less than half of what is reserved


class Journal:
    """A ledger whose every step is written to a file first. Without a path nothing is written."""

    def __init__(self, path: str | None, header: Header) -> None:
        self.ledger = Ledger()
        self._path = path
        self._gone: set[int] = set()
        self._fd: int | None = None
        self._torn = False
        self._kept: bytearray | None = None  # lines that are written together
        self._end = self._reserved = 0
        if path is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._fd = os.open(path, flags, 0o600)
        self._write(
            "header", header.job_id, os.fsdecode(header.root),
            [os.fsdecode(folder) for folder in header.folders], header.umask, header.started_ns,
            _VERSION,
        )  # fmt: skip

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Writes the steps that are noted meanwhile at once, at the end."""
        kept = self._kept = bytearray()
        try:
            yield
        finally:
            self._kept = None
            if kept:
                self._append(bytes(kept))

    def name(self, object_id: int, name: Place, size: int) -> None:
        """Does what Ledger.name says; nothing when that is known, or the object gone: who says so
        is late."""
        if self.ledger.named.get(object_id) != name and object_id not in self._gone:
            self._write("name", object_id, *_texts(name), size)
            self.ledger.name(object_id, name, size)

    def draft(self, object_id: int, name: Place) -> None:
        """Notes an object that is being written, and the name under which it is to be published."""
        if object_id not in self.ledger.named and object_id not in self._gone:
            self._write("draft", object_id, *_texts(name))
            self.ledger.drafts[object_id] = name

    def place(self, object_id: int, name: Place, identity: Identity) -> None:
        """Does what Ledger.place says."""
        self._write("place", object_id, *_texts(name), *identity)
        self.ledger.place(object_id, name, identity)

    def drop(self, object_id: int) -> None:
        """Does what Ledger.drop says; nothing that is said of the object later counts."""
        self._gone.add(object_id)
        if object_id in self.ledger.named or object_id in self.ledger.drafts:
            self._write("drop", object_id)
            self.ledger.drop(object_id)

    def set_lone(self, name: Place, lone: Lone | None) -> None:
        """Does what Ledger.set_lone says; nothing when that is known."""
        if self.ledger.lone.get(name) != lone:
            target = None if lone is None or lone.target is None else os.fsdecode(lone.target)
            self._write("lone", *_texts(name), None if lone is None else lone.mode, target)
            self.ledger.set_lone(name, lone)

    def discard(self) -> None:
        """Removes the file: all is accounted for, and there is nothing to rescue any more."""
        self.close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def close(self) -> None:
        """Closes the file, and leaves it there."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _write(self, *record: Any) -> None:
        """Appends a line, or keeps it where lines are written together."""
        # For all at once, json makes an encoder anew each time, which takes longer than the rest.
        values = [str(each) if type(each) is int else json.dumps(each) for each in record]
        line = f"[{', '.join(values)}]\n".encode()
        if self._kept is None:
            self._append(line)
            return
        self._kept += line
        if len(self._kept) > _KEPT_MOST_BYTES:
            self._append(bytes(self._kept))
            self._kept.clear()

    def _append(self, lines: bytes) -> None:
        """Appends lines. On a full disk the steps count all the same, while the daemon lives; the
        next line then begins anew, so that one which was cut off spoils no other."""
        if self._fd is not None:
            lines = b"\n" * self._torn + lines
            written = 0
            self._end += len(lines)
            if self._end + _RESERVE_BYTES // 2 > self._reserved:
                self._reserve(self._fd)
            with contextlib.suppress(OSError):
                written = os.write(self._fd, lines)
            self._torn = written < len(lines) if written else self._torn

    def _reserve(self, fd: int) -> None:
        """Reserves space, so that publications can be noted on a full disk: a rescue takes an
        object without a noted name for half written. Does nothing where there is no space."""
        start = os.fstat(fd).st_size
        if lib.fan_reserve(fd, start, _RESERVE_BYTES) == 0:
            self._reserved = start + _RESERVE_BYTES
        else:
            self._reserved = self._end + _RESERVE_BYTES  # not at each line again


def _texts(name: Place) -> tuple[int, str]:
    return name.mount, os.fsdecode(name.path)


def _place(mount: int, path: str) -> Place:
    return split(mount, os.fsencode(path))


def read_journal(path: str) -> tuple[Header, Ledger] | None:
    """Returns what a dead job's journal says; a line that was cut off does not count. None:
    nothing. Raises OSError (EBADMSG) where another version of FanStore wrote it differently."""
    records = list(_records(path))
    try:
        return _read_records(records)
    except (ValueError, TypeError, KeyError, IndexError):
        raise OSError(errno.EBADMSG, "is no journal of this FanStore's", path) from None


def _read_records(records: list[Any]) -> tuple[Header, Ledger] | None:
    if not records or records[0][0] != "header":
        return None
    _, job_id, root, folders, umask, started_ns, version = records[0]
    if version != _VERSION:
        raise ValueError(version)
    header = Header(job_id, os.fsencode(root), tuple(map(os.fsencode, folders)), umask, started_ns)
    ledger = Ledger()
    for record in records[1:]:
        _apply(ledger, *record)
    return header, ledger


def _records(path: str) -> Iterator[list[Any]]:
    with open(path, "rb") as stream:
        for line in stream:
            with contextlib.suppress(ValueError):
                yield json.loads(line)


def _apply(ledger: Ledger, step: str, *values: Any) -> None:
    if step == "name":
        object_id, mount, path, size = values
        ledger.name(object_id, _place(mount, path), size)
    elif step == "place":
        object_id, mount, path, *identity = values
        ledger.place(object_id, _place(mount, path), Identity(*identity))
    elif step == "draft":
        object_id, mount, path = values
        ledger.drafts[object_id] = _place(mount, path)
    elif step == "drop":
        ledger.drop(*values)
    elif step == "lone":
        mount, path, mode, target = values
        lone = None if mode is None else Lone(mode, None if target is None else os.fsencode(target))
        ledger.set_lone(_place(mount, path), lone)
