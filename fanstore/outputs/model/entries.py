"""Entries: what a name in the output tree stands for."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import NamedTuple

from fanstore._native import lib

OBJECTS = "objects"  # the folder for their files, in a job's directory
OBJECT_RANK_SHIFT = int(lib.FAN_OBJECT_RANK_SHIFT)
LANES = int(lib.FAN_OBJECT_LANES)
_FOLDER_SHIFT = int(lib.FAN_OBJECT_FOLDER_SHIFT)
FOLDER_OBJECTS = (1 << _FOLDER_SHIFT) // LANES
_INODE_BIT = 1 << 62  # no input has it: those are numbered from 2 on


def owner_of(object_id: int) -> int:
    """Returns the owner of an object: the rank on whose disk its file lies."""
    return object_id >> OBJECT_RANK_SHIFT


def folder_of(object_id: int) -> int:
    """Returns the number of the folder in which an object's file lies, with FOLDER_OBJECTS at most:
    file systems search small ones faster, and programs that create files at the same time do so in
    different ones."""
    return (object_id >> _FOLDER_SHIFT) * LANES + object_id % LANES


def file_of(object_id: int) -> bytes:
    """Returns the path of an object's file below the folder of all objects."""
    return b"%x/%x" % (folder_of(object_id), object_id)


def inode_of(object_id: int) -> int:
    """Returns the st_ino of an object: the same on every rank, and never that of an input."""
    return _INODE_BIT | object_id


class Attr(NamedTuple):
    """Attributes as stat(2) has them; mode with the type, times in nanoseconds."""

    mode: int
    uid: int
    gid: int
    size: int
    blocks: int
    atime_ns: int
    mtime_ns: int
    ctime_ns: int

    @staticmethod
    def of(found: os.stat_result) -> Attr:
        """Takes the attributes of a real file from its stat."""
        return Attr(*(getattr(found, f"st_{name}") for name in Attr._fields))


@dataclass(frozen=True)
class Changes:
    """What chmod, chown and utimens change; None leaves a value as it is. mode has no file type."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    atime_ns: int | None = None
    mtime_ns: int | None = None

    def of(self, attr: Attr, now_ns: int) -> Attr:
        """Returns `attr` as it is after these changes."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        if self.mode is not None:
            given["mode"] = stat.S_IFMT(attr.mode) | stat.S_IMODE(self.mode)
        return attr._replace(ctime_ns=now_ns, **given)


@dataclass(frozen=True)
class Entry:
    """A published output. object_id: its identity, and for a file where its bytes are
    (Entry.owner). target: that of a symbolic link. first: the object that was the first version of
    this file, 0 if this one is."""

    object_id: int
    attr: Attr
    target: bytes = b""
    first: int = 0

    @property
    def owner(self) -> int:
        """The rank on whose disk its bytes are."""
        return owner_of(self.object_id)

    @property
    def inode(self) -> int:
        """Its st_ino, which is that of the file's first version."""
        return inode_of(self.first or self.object_id)

    @property
    def is_directory(self) -> bool:
        """Whether this is a directory."""
        return stat.S_ISDIR(self.attr.mode)

    @property
    def is_link(self) -> bool:
        """Whether this is a symbolic link."""
        return stat.S_ISLNK(self.attr.mode)

    @property
    def is_file(self) -> bool:
        """Whether this is a regular file."""
        return stat.S_ISREG(self.attr.mode)


class Place(NamedTuple):
    """A name in a directory of a mount, whether something is there or not. directory: relative to
    the mount, in normal form, b"" for its root; name: one component."""

    mount: int
    directory: bytes
    name: bytes

    @property
    def path(self) -> bytes:
        """Its path relative to the mount, in normal form."""
        return self.directory + b"/" + self.name if self.directory else self.name

    def after_move(self, mount: int, old: bytes, new: bytes) -> Place:
        """Returns where it is once the directory `old` of a mount is at `new`."""
        if self.mount != mount or not (self.directory + b"/").startswith(old + b"/"):
            return self
        return self._replace(directory=new + self.directory[len(old) :])


def home_rank_of(mount: int, directory: bytes, world_size: int) -> int:
    """Returns the rank that keeps the names in a directory: the same one on every rank and in every
    run, so it is FNV-1a of the path, as Python's own hash is salted."""
    if world_size == 1:
        return 0
    value = 0xCBF29CE484222325 ^ mount
    for byte in directory:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return (value ^ value >> 32) % world_size


def split(mount: int, path: bytes) -> Place:
    """Returns the place of a path in normal form; the root has none."""
    directory, _, name = path.rpartition(b"/")
    return Place(mount, directory, name)


@dataclass(frozen=True)
class Slot:
    """What a home rank keeps for one name: what is published, and `draft`, the object that is being
    written under it, which only its writers see."""

    entry: Entry | None = None
    draft: int | None = None

    @property
    def published(self) -> int | None:
        """The object that is published, or None."""
        return self.entry.object_id if self.entry else None

    def knows(self, object_id: int) -> bool:
        """Tells whether the object is published under this name or being written under it."""
        return object_id in (self.published, self.draft)


FREE = Slot()  # of a name that stands for nothing


def failure(number: int, path: bytes | None = None) -> OSError:
    """Returns (does not raise) the OSError of an errno."""
    return OSError(number, os.strerror(number), path)


def refuse(path: bytes, *cases: tuple[bool, int]) -> None:
    """Raises the errno of the first case that holds."""
    for holds, number in cases:
        if holds:
            raise failure(number, path)
