"""Describes the entry behind a name among the outputs, and the identity of a file; makes the names
of files that nobody finished."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Attr(NamedTuple):
    """Attributes as in stat(2). mode includes the file type; times are in nanoseconds."""

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
        """Returns the attributes in a stat result."""
        return Attr(
            found.st_mode, found.st_uid, found.st_gid, found.st_size, found.st_blocks,
            found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns,
        )  # fmt: skip


class Identity(NamedTuple):
    """Identifies a file in the output directory, so that another file in its place is noticed."""

    inode: int
    size: int
    mtime_ns: int

    @staticmethod
    def of(found: os.stat_result) -> Identity:
        """Returns the identity in a stat result."""
        return Identity(found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class Changes:
    """Changes of attributes by chmod, chown and utimens; None leaves a value unchanged. mode has no
    file type."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    atime_ns: int | None = None
    mtime_ns: int | None = None


class Entry(NamedTuple):
    """The file, directory or link that a name stands for. rank: the rank whose tree holds it;
    inode: its number in that tree; target: a symbolic link's target, as programs see it; hidden:
    for now only programs of that rank see it."""

    rank: int
    inode: int
    attr: Attr
    target: bytes = b""
    hidden: bool = False

    @property
    def is_directory(self) -> bool:
        """Whether the entry is a directory."""
        return stat.S_ISDIR(self.attr.mode)

    @property
    def is_link(self) -> bool:
        """Whether the entry is a symbolic link."""
        return stat.S_ISLNK(self.attr.mode)

    @property
    def is_file(self) -> bool:
        """Whether the entry is a regular file."""
        return stat.S_ISREG(self.attr.mode)

    @property
    def version(self) -> tuple[int, int, int, int]:
        """A value that changes whenever the content of the file changes."""
        return self.inode, self.attr.size, self.attr.mtime_ns, self.attr.ctime_ns


def keeper_of(mount: int, directory: bytes, world_size: int) -> int:
    """Returns the rank that keeps the names made in a directory of the dataset. It must be the same
    on every rank and in every run, so it comes from the FNV-1a hash of the path; Python's own hash
    is salted."""
    value = 0xCBF29CE484222325 ^ mount
    for byte in directory:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return (value ^ value >> 32) % world_size


def joined(directory: bytes, name: bytes) -> bytes:
    """Returns the path of a name in a directory; the root directory's path is b""."""
    return directory + b"/" + name if directory else name


def failure(number: int, path: bytes | None = None) -> OSError:
    """Returns an OSError with an errno; does not raise it."""
    return OSError(number, os.strerror(number), path)


def refuse(path: bytes, *cases: tuple[bool, int]) -> None:
    """Raises an OSError with the errno of the first case that holds."""
    for holds, number in cases:
        if holds:
            raise failure(number, path)


NAME_MAX = 255  # bytes
_NUMBERS = 1000


# Names for outputs whose writer was killed; their own names are only for complete files.
def partial_names(name: bytes) -> Iterator[bytes]:
    """Yields NAME.partial, NAME.partial.2 and so on, each cut to 255 bytes."""
    for number in range(1, _NUMBERS):
        end = b".partial" if number == 1 else b".partial.%d" % number
        yield name[: NAME_MAX - len(end)] + end


def partial_paths(path: str) -> Iterator[str]:
    """Yields the path with each of the partial_names of its last component in place of that."""
    directory, name = os.path.split(path)
    for partial in partial_names(os.fsencode(name)):
        yield os.path.join(directory, os.fsdecode(partial))
