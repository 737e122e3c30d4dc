"""One member of an archive, and the interface of readers, for all formats."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

# Longer paths are mistakes or attacks: each directory in a path needs its own copy of the path
# before it.
PATH_MAX_BYTES = 16384
NAME_MAX_BYTES = 255
TARGET_MAX_BYTES = 4095
_SIZE_END = 1 << 63
_OWNER_END = (1 << 32) - 1
_TIME_END_NS = 1 << 63


class ArchiveBroken(Exception):
    """The rest of an archive cannot be read. The message says at which offset, and why."""


@dataclass
class Member:
    """A member of an archive. mode: includes the file type. target: the target of a symbolic link,
    or the name of the member to which a hard link (`is_link`) refers. problem: the reason why it
    cannot be packed, if its reader found one."""

    name: bytes
    mode: int = stat.S_IFREG | 0o644
    size: int = 0
    mtime_ns: int = 0
    uid: int = 0
    gid: int = 0
    target: bytes = b""
    is_link: bool = False
    problem: str | None = None

    def refusal(self) -> str | None:
        """Returns the reason why this member cannot be packed, or None."""
        if self.problem is not None:
            return self.problem
        if self.is_link:
            return _refused_name(self.name)
        return _refused_name(self.name) or _refused_target(self) or _refused_number(self)


def _refused_name(name: bytes) -> str | None:
    if b"\0" in name:
        return "has a NUL in its name"
    if len(name) > PATH_MAX_BYTES:
        return f"has a name of {len(name):,} bytes; at most {PATH_MAX_BYTES:,} are taken"
    if max(map(len, name.split(b"/"))) > NAME_MAX_BYTES:
        return f"has a name of more than {NAME_MAX_BYTES} bytes on its path"
    return None


def _refused_target(member: Member) -> str | None:
    if not stat.S_ISLNK(member.mode):
        return None
    if not member.target:
        return "is a symbolic link without a target"
    if len(member.target) > TARGET_MAX_BYTES:
        return f"is a symbolic link with a target of {len(member.target):,} bytes; at most " + (
            f"{TARGET_MAX_BYTES:,} can be made"
        )
    return "is a symbolic link with a NUL in its target" if b"\0" in member.target else None


def _refused_number(member: Member) -> str | None:
    if not 0 <= member.size < _SIZE_END:
        return f"has a size of {member.size} bytes, which no file can have"
    if not -_TIME_END_NS <= member.mtime_ns < _TIME_END_NS:
        return "has a time outside the years 1678 to 2261, which cannot be stored"
    for kind, number in (("uid", member.uid), ("gid", member.gid)):
        if not 0 <= number < _OWNER_END:
            return f"has the {kind} {number}, which no user can have"
    return None


class Reader(Protocol):
    """Reads an archive once, from front to back. Both methods raise ArchiveBroken or OSError."""

    # Problems of the archive as a whole that do not stop the reading: (name, reason).
    remarks: list[tuple[bytes, str]]

    def members(self) -> Iterator[Member]:
        """Yields the members in the order in which they are stored."""

    def read_into(self, buffer: memoryview) -> int:
        """Reads the next bytes of the member that was yielded last. Returns how many were read:
        fewer than the buffer holds only at the end."""
