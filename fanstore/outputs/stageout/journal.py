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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fanstore._native import lib
from fanstore.outputs.model.entries import Entry, Place, split

JOURNAL = "outputs.journal"
_VERSION = 3  # of the journal, and of where the files of objects lie


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
    """A directory or a link, which has no object. target: a link's, else b""."""

    mode: int
    target: bytes

    @staticmethod
    def of(entry: Entry) -> Lone:
        """Returns what is noted of a directory or link."""
        return Lone(entry.attr.mode, entry.target)

    @property
    def is_directory(self) -> bool:
        """Tells whether this is a directory: a link has a target."""
        return not self.target


class Named(NamedTuple):
    """A published object: its one name, and its copy in the output directory, which may have an
    earlier one."""

    name: Place
    size: int
    placed: Placed | None


_UNKNOWN = Named(Place(-1, b"", b""), 0, None)


@dataclass
class Ledger:
    """What is known of a rank's objects. named: those that are published. waiting: the sizes of
    those of them that are not in the output directory under their name, in their order. drafts: the
    name under which one that is being written is to be. stale: what was placed of objects that are
    gone. lone: the directories and links in each directory of which this rank is the home rank."""

    named: dict[int, Named] = field(default_factory=dict)
    named_bytes: int = 0
    waiting: dict[int, int] = field(default_factory=dict)
    waiting_bytes: int = 0
    drafts: dict[int, Place] = field(default_factory=dict)
    stale: dict[Place, Identity] = field(default_factory=dict)
    lone: dict[tuple[int, bytes], dict[bytes, Lone]] = field(default_factory=dict)
    _gone: set[int] = field(default_factory=set)

    def name(self, object_id: int, name: Place, size: int) -> None:
        """Notes the one name under which an object is published; nothing when the object is gone:
        who says so is late."""
        known = self.named.get(object_id, _UNKNOWN)
        if object_id in self._gone or known.name == name:
            return
        self._note("name", object_id, name, size)
        self.drafts.pop(object_id, None)
        self.named[object_id] = Named(name, size, known.placed)
        self.named_bytes += size - known.size
        self._arrived(object_id)  # what is renamed comes after all that was published before
        if known.placed is None or known.placed.name != name:
            self.waiting[object_id] = size
            self.waiting_bytes += size

    def draft(self, object_id: int, name: Place) -> None:
        """Notes an object that is being written, and the name under which it is to be published."""
        if object_id not in self.named and object_id not in self._gone:
            self._note("draft", object_id, name)
            self.drafts[object_id] = name

    def place(self, object_id: int, name: Place, identity: Identity) -> None:
        """Notes that a copy of the object is in the output directory, under `name`."""
        self._note("place", object_id, name, identity)
        known = self.named.get(object_id)
        if known is None:
            self.stale[name] = identity
            return
        self._leave(known)
        self.named[object_id] = Named(known.name, known.size, Placed(name, identity))
        self.stale.pop(name, None)
        if known.name == name:
            self._arrived(object_id)

    def placed(self, object_id: int) -> Placed | None:
        """Returns the copy of a published object in the output directory, if there is one."""
        return self.named.get(object_id, _UNKNOWN).placed

    def drop(self, object_id: int) -> None:
        """Notes that an object is gone: it was replaced or unlinked. Nothing that is said of it
        later counts."""
        self._gone.add(object_id)
        if object_id not in self.named and object_id not in self.drafts:
            return
        self._note("drop", object_id)
        self.drafts.pop(object_id, None)
        self._arrived(object_id)
        known = self.named.pop(object_id, _UNKNOWN)
        self.named_bytes -= known.size
        self._leave(known)

    def set_lone(self, name: Place, lone: Lone | None) -> None:
        """Notes the directory or link that has a name; None: there is none any more."""
        if self.lone_at(name) == lone:
            return
        self._note("set_lone", name, lone)
        names = self.lone.setdefault((name.mount, name.directory), {})
        if lone is not None:
            names[name.name] = lone
        elif len(names) > 1:
            del names[name.name]
        else:
            del self.lone[name.mount, name.directory]

    def lone_at(self, name: Place) -> Lone | None:
        """Returns the directory or link that has a name, if there is one."""
        return self.lone.get((name.mount, name.directory), {}).get(name.name)

    def all_lone(self) -> Iterator[tuple[Place, Lone]]:
        """Yields all directories and links, with their names."""
        for (mount, directory), names in self.lone.items():
            for name, lone in names.items():
                yield Place(mount, directory, name), lone

    def _leave(self, known: Named) -> None:
        """Notes that the copy of an object is to go from where it is."""
        if known.placed is not None:
            self.stale[known.placed.name] = known.placed.identity

    def _arrived(self, object_id: int) -> None:
        self.waiting_bytes -= self.waiting.pop(object_id, 0)

    def _note(self, step: str, *values: Any) -> None:
        """Is given each step before it is made: the name of the method, and its values."""


class Header(NamedTuple):
    """What a rescue needs to know of the job. root: the output directory; folders: of each mount,
    in it. started_ns: when the job began."""

    job_id: str
    root: bytes
    folders: tuple[bytes, ...]
    umask: int
    started_ns: int


_RESERVE_BYTES = 1 << 18
_KEPT_MOST_BYTES = 1 << 16  # with one more line less than half of what is reserved


class Journal(Ledger):
    """A ledger whose every step is written to a file first."""

    def __init__(self, path: str, header: Header) -> None:
        super().__init__()
        self._path = path
        self._kept = bytearray()  # lines that are not written yet
        self._is_together = False
        self._room = 0  # bytes that are reserved and not written
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd: int | None = os.open(path, flags, 0o600)
        self._note("header", _VERSION, header)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Writes the steps that are noted meanwhile at once, at the end."""
        self._is_together = True
        try:
            yield
        finally:
            self._is_together = False
            self._write()

    def discard(self) -> None:
        """Removes the file: all is accounted for, and there is nothing to rescue any more."""
        self.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def close(self) -> None:
        """Closes the file, and leaves it there."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _note(self, step: str, *values: Any) -> None:
        texts = [str(each) if type(each) is int else _text(each) for each in values]
        # A line begins anew, so that one which was cut off, on a full disk, spoils no other.
        self._kept += f'\n["{step}", {", ".join(texts)}]'.encode()
        if not self._is_together or len(self._kept) > _KEPT_MOST_BYTES:
            self._write()

    def _write(self) -> None:
        """Writes what is kept. On a full disk the steps count all the same, while the daemon lives;
        space is reserved, so that publications can be noted there, too: a rescue takes an object
        without a noted name for half written."""
        lines, self._kept = self._kept, bytearray()
        if self._fd is None or not lines:
            return
        if self._room < _RESERVE_BYTES // 2 + len(lines):
            lib.fan_reserve(self._fd, os.fstat(self._fd).st_size, _RESERVE_BYTES)
            self._room = _RESERVE_BYTES  # or there is none, which is not asked at each line again
        self._room -= len(lines)
        with contextlib.suppress(OSError):
            os.write(self._fd, lines)


def _text(value: Any) -> str:
    """Returns a value of a step in JSON. What most lines have is written by hand: for json it takes
    longer than all else about a step."""
    if isinstance(value, Place):
        return f"[{value.mount}, {json.dumps(os.fsdecode(value.path))}]"
    if isinstance(value, Identity):
        return f"[{value.inode}, {value.size}, {value.mtime_ns}]"
    return json.dumps(value, default=os.fsdecode)


# The steps, which are methods of a ledger, and what makes their values of what was written.
_STEPS: dict[str, tuple[Callable[..., Any], ...]] = {
    "name": (int, split, int),
    "draft": (int, split),
    "place": (int, split, Identity),
    "drop": (int,),
    "set_lone": (split, Lone),
}


def read_journal(path: str) -> tuple[Header, Ledger] | None:
    """Returns what a dead job's journal says; a line that was cut off does not count. None:
    nothing. Raises OSError (EBADMSG) where another version of FanStore wrote it differently."""
    lines = list(_lines(path))
    try:
        if not lines or lines[0][0] != "header":
            return None
        _, version, (job_id, root, folders, *rest) = lines[0]
        if version != _VERSION:
            raise ValueError(version)
        header = Header(job_id, os.fsencode(root), tuple(map(os.fsencode, folders)), *rest)
        ledger = Ledger()
        for step, *values in lines[1:]:
            read = [_read(*each) for each in zip(_STEPS[step], values, strict=True)]
            getattr(ledger, step)(*read)
    except (ValueError, TypeError, KeyError, IndexError):
        raise OSError(errno.EBADMSG, "is no journal of this FanStore's", path) from None
    return header, ledger


def _lines(path: str) -> Iterator[list[Any]]:
    with open(path, "rb") as stream:
        for line in stream:
            with contextlib.suppress(ValueError):
                yield json.loads(line)


def _read(kind: Callable[..., Any], value: Any) -> Any:
    """Returns a value of a step as it was before it was written."""
    if not isinstance(value, list):
        return value
    return kind(*[os.fsencode(each) if isinstance(each, str) else each for each in value])
