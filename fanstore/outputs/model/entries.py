"""What a name among the outputs stands for, and what tells a file from another."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import NamedTuple


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


class Identity(NamedTuple):
    """What tells a file in the output directory from another that was put in its place."""

    inode: int
    size: int
    mtime_ns: int

    @staticmethod
    def of(found: os.stat_result) -> Identity:
        """Takes the identity of a real file from its stat."""
        return Identity(found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class Changes:
    """What chmod, chown and utimens change; None leaves a value as it is. mode has no file type."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    atime_ns: int | None = None
    mtime_ns: int | None = None


class Entry(NamedTuple):
    """What a name stands for. rank: the one in whose tree it is. inode: there. target: of a
    symbolic link, as programs see it. hidden: only programs of that rank see it, for now."""

    rank: int
    inode: int
    attr: Attr
    target: bytes = b""
    hidden: bool = False

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

    @property
    def version(self) -> tuple[int, int, int, int]:
        """What changes whenever the bytes of the file do."""
        return self.inode, self.attr.size, self.attr.mtime_ns, self.attr.ctime_ns


def keeper_of(mount: int, directory: bytes, world_size: int) -> int:
    """Returns the rank that keeps the names made in a directory of the dataset: the same one on
    every rank and in every run, so it is FNV-1a of the path, as Python's own hash is salted."""
    value = 0xCBF29CE484222325 ^ mount
    for byte in directory:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return (value ^ value >> 32) % world_size


def joined(directory: bytes, name: bytes) -> bytes:
    """Returns the path of a name in a directory; that of the root is b""."""
    return directory + b"/" + name if directory else name


def failure(number: int, path: bytes | None = None) -> OSError:
    """Returns (does not raise) the OSError of an errno."""
    return OSError(number, os.strerror(number), path)


def refuse(path: bytes, *cases: tuple[bool, int]) -> None:
    """Raises the errno of the first case that holds."""
    for holds, number in cases:
        if holds:
            raise failure(number, path)
