"""Keeps what was placed in the output directory, in memory and in a file that outlives the daemon.

The file says, before a name is given there, which version of which file is to get it, and which
inode that is: after the death of the daemon the output directory itself shows how far it came. It
is not synced: it is for the death of processes, which takes nothing from the page cache.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import NamedTuple

from fanstore._native import lib
from fanstore.outputs.model.entries import Identity

FILE = "placed"
_VERSION = 1
_RESERVED_BYTES = 128 << 10


@dataclass(frozen=True)
class Header:
    """What a rescue has to know of a job. root: the output directory. folders: of each mount below
    it. umask: of the user."""

    job_id: str
    root: str
    folders: tuple[str, ...]
    umask: int
    keep_partial: bool


class Source(NamedTuple):
    """A version of a file in the tree."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @staticmethod
    def of(found: os.stat_result) -> Source:
        """Returns the version that stat(2) shows."""
        return Source(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def has_bytes_of(self, other: Source) -> bool:
        """Tells whether both may have the same bytes: all but the time of the last change of
        attributes or names is the same. The bytes themselves decide."""
        return self[:3] == other[:3]


ITSELF_NS = -1  # in place of the time of change


class Copy(NamedTuple):
    """A file, or a link, that was placed: which version of which, and what it is there. Where it is
    the file itself, by a hard link, it is every version, and the time of change says so."""

    source: Source
    identity: Identity


class Placed:
    """What was placed, by its path below the output directory. copies: files and links.
    directories: those that were made for one in the tree."""

    def __init__(self, path: str, header: Header) -> None:
        """Begins the file at `path`, or goes on with it."""
        self.header = header
        self.copies: dict[bytes, Copy] = {}
        self.directories: set[bytes] = set()
        self._of_inode: dict[int, set[bytes]] = {}
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._reserved = 0
        if os.fstat(self._fd).st_size == 0:
            line = {"version": _VERSION, **asdict(header)}
            self._write(json.dumps(line).encode() + b"\0")

    def has(self, path: bytes, found: os.stat_result) -> bool:
        """Tells whether this version of a file or link is there."""
        copy = self.copies.get(path)
        if copy is None or copy.source.inode != found.st_ino:
            return False
        return copy.source.ctime_ns == ITSELF_NS or copy.source == Source.of(found)

    def intend(self, copies: Iterable[tuple[bytes, Copy]]) -> None:
        """Writes down what is about to get these names. Raises OSError: then none may."""
        self._write(
            b"".join(
                b"c %d %d %d %d %d %d %d %s\0" % (*copy.source, *copy.identity, path)
                for path, copy in copies
            )
        )

    def done(self, path: bytes, copy: Copy) -> None:
        """Notes that a name was given as intended."""
        self.gone(path)
        self.copies[path] = copy
        self._of_inode.setdefault(copy.source.inode, set()).add(path)

    def copies_of(self, inode: int) -> list[bytes]:
        """Returns where versions of a file are."""
        return list(self._of_inode.get(inode, ()))

    def make(self, path: bytes) -> None:
        """Writes down that a directory is about to be made."""
        self._write(b"d %s\0" % path)

    def below(self, path: bytes) -> list[bytes]:
        """Returns the copies below a directory."""
        return [each for each in list(self.copies) if each.startswith(path + b"/")]

    def discard(self) -> None:
        """Empties the file: nothing is left to be done."""
        self.close()
        with contextlib.suppress(FileNotFoundError):
            os.truncate(self.path, 0)

    def close(self) -> None:
        """Closes the file; what was placed is still known."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def take_over(self, identify: Callable[[bytes], os.stat_result | None]) -> None:
        """Learns from a file that another process wrote. identify: lstat(2) of a path below the
        output directory, None where nothing is: of all that was intended, that counts."""
        intended: dict[bytes, list[Copy]] = {}
        for kind, path, copy in read_lines(self.path):
            if kind == b"d":
                made = identify(path)
                if made is not None and stat.S_ISDIR(made.st_mode):
                    self.directories.add(path)
            elif copy is not None:
                intended.setdefault(path, []).append(copy)
        for path, candidates in intended.items():
            found = identify(path)
            if found is None:
                continue
            identity = Identity.of(found)
            for copy in reversed(candidates):
                if copy.identity == identity:
                    self.done(path, copy)
                    break

    def gone(self, path: bytes) -> None:
        """Notes that a copy is there no more."""
        before = self.copies.pop(path, None)
        if before is not None:
            self._of_inode[before.source.inode].discard(path)

    def _write(self, text: bytes) -> None:
        """Writes whole records: one that is cut short, on a full disk, is taken back."""
        if not text:
            return
        end = os.lseek(self._fd, 0, os.SEEK_END)
        if end + len(text) > self._reserved:  # a full disk must not end stage-out
            lib.fan_reserve(self._fd, end, len(text) + _RESERVED_BYTES)
            self._reserved = end + len(text) + _RESERVED_BYTES
        done = os.write(self._fd, text)
        if done < len(text):
            try:
                os.write(self._fd, text[done:])
            except OSError:
                os.ftruncate(self._fd, end)
                raise


def is_discarded(path: str) -> bool:
    """Tells whether the file at `path` is of a job of whose outputs nothing is left to be done."""
    with contextlib.suppress(OSError):
        return os.stat(path).st_size == 0
    return False


def read_header(path: str) -> Header | None:
    """Returns the header of the file at `path`; None where there is none, or not a whole one."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        with open(path, "rb") as stream:
            text = stream.read(1 << 20).partition(b"\0")[0]
        about = json.loads(text)
        if about.pop("version") == _VERSION:
            return Header(**{**about, "folders": tuple(about["folders"])})
    return None


def read_lines(path: str) -> Iterator[tuple[bytes, bytes, Copy | None]]:
    """Yields the kind, path and copy of each whole record behind the header."""
    with open(path, "rb") as stream:
        records = stream.read().split(b"\0")[1:-1]
    for record in records:
        kind, _, rest = record.partition(b" ")
        if kind == b"d":
            yield kind, rest, None
        elif kind == b"c":
            *numbers, name = rest.split(b" ", 7)
            values = [int(each) for each in numbers]
            yield kind, name, Copy(Source(*values[:4]), Identity(*values[4:]))
