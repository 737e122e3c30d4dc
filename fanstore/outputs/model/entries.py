"""What a name in the output tree stands for."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace

OBJECT_RANK_SHIFT = 40
_INODE_BIT = 1 << 62  # no input has it: those are numbered from 2 on


def owner_of(object_id: int) -> int:
    """The rank on whose disk an object lies."""
    return object_id >> OBJECT_RANK_SHIFT


def inode_of(object_id: int) -> int:
    """st_ino of an object: the same on every rank, and no input's."""
    return _INODE_BIT | object_id


@dataclass(frozen=True)
class Attr:
    """Attributes as stat(2) has them; mode with the type, times in nanoseconds."""

    mode: int
    uid: int
    gid: int
    size: int
    blocks: int
    atime_ns: int
    mtime_ns: int
    ctime_ns: int
    device: int = 0

    @staticmethod
    def of(found: os.stat_result) -> Attr:
        """Those of a real file."""
        return Attr(
            found.st_mode, found.st_uid, found.st_gid, found.st_size, found.st_blocks,
            found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns, found.st_rdev,
        )  # fmt: skip


@dataclass(frozen=True)
class Changes:
    """What chmod, chown and utimens change; None stays. mode without the type."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    atime_ns: int | None = None
    mtime_ns: int | None = None

    def of(self, attr: Attr, now_ns: int) -> Attr:
        """The attributes after the change."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        if self.mode is not None:
            given["mode"] = stat.S_IFMT(attr.mode) | stat.S_IMODE(self.mode)
        return replace(attr, ctime_ns=now_ns, **given)


@dataclass(frozen=True)
class Entry:
    """A published output. object_id: its identity and its bytes' place; of directories and links
    the identity alone. target: a link's. first: the object that was the first version of this file,
    0 if this one is."""

    object_id: int
    attr: Attr
    target: bytes = b""
    first: int = 0

    @property
    def owner(self) -> int:
        """The rank that has its bytes."""
        return owner_of(self.object_id)

    @property
    def inode(self) -> int:
        """st_ino: that of the file's first version."""
        return inode_of(self.first or self.object_id)

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.attr.mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.attr.mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.attr.mode)


@dataclass(frozen=True)
class Place:
    """A name in a directory of a mount. directory: relative to the mount, in normal form, b"" for
    its root; name: one component."""

    mount: int
    directory: bytes
    name: bytes

    @property
    def path(self) -> bytes:
        """Relative to the mount, in normal form."""
        return self.directory + b"/" + self.name if self.directory else self.name


def home_rank_of(mount: int, directory: bytes, world_size: int) -> int:
    """The rank that keeps the names in a directory: the same on every rank, whatever the order of
    things. FNV-1a of the path, as Python's own hash is salted."""
    value = 0xCBF29CE484222325 ^ mount
    for byte in directory:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return (value ^ value >> 32) % world_size


def split(mount: int, path: bytes) -> Place:
    """The place of a path in normal form, not that of the root."""
    directory, _, name = path.rpartition(b"/")
    return Place(mount, directory, name)


@dataclass
class Slot:
    """What a home rank keeps for a name. draft: the object that is being written under it,
    invisible to all but its writers. A slot with neither is dropped."""

    entry: Entry | None = None
    draft: int | None = None

    def knows(self, object_id: int) -> bool:
        """Whether that is what it holds, published or not."""
        return self.draft == object_id or (
            self.entry is not None and self.entry.object_id == object_id
        )


Listing = Sequence[tuple[bytes, Entry]]


def failure(number: int, path: bytes | None = None) -> OSError:
    """An errno as an exception."""
    return OSError(number, os.strerror(number), path)
