"""Records what was placed in the output directory, in memory and in a file that outlives the
daemon.

Before a name is given in the output directory, the file records which version of which file will
get it, and the inode of the copy. If the daemon dies, the output directory itself shows how far it
came. The file is not synced: it must survive only the death of processes, which does not affect the
page cache."""

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
    """Facts about a job that a rescue needs. root: the output directory. folders: the folder of
    each mount below it. umask: the user's."""

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
        """Returns the version in a stat result."""
        return Source(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def has_bytes_of(self, other: Source) -> bool:
        """Returns whether both versions may have the same bytes: everything is equal except the
        time of the last change of attributes or names. Only comparing the bytes makes it
        certain."""
        return self[:3] == other[:3]


ITSELF_NS = -1  # in place of a ctime: the copy is a hard link to the file itself


class Copy(NamedTuple):
    """A placed file or link: its source version, and its identity in the output directory. A hard
    link to the file itself has the bytes of every version; its source.ctime_ns is ITSELF_NS."""

    source: Source
    identity: Identity


class Placed:
    """The placed outputs, by path below the output directory. copies: files and links. directories:
    those created for a directory in the tree."""

    def __init__(self, path: str, header: Header) -> None:
        """Creates the file at `path`, or appends to it."""
        self.header = header
        self.copies: dict[bytes, Copy] = {}
        self.directories: set[bytes] = set()
        self._intended: dict[bytes, Copy | None] = {}  # None: given to another rank already
        self._former: dict[bytes, Identity] = {}  # what was at a path before, and may still be
        self._of_inode: dict[int, set[bytes]] = {}
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._reserved = 0
        if os.fstat(self._fd).st_size == 0:
            line = {"version": _VERSION, **asdict(header)}
            self._write(json.dumps(line).encode() + b"\0")

    def has(self, path: bytes, found: os.stat_result) -> bool:
        """Returns whether this version of a file or link is placed at `path`."""
        copy = self.copies.get(path)
        if copy is None or copy.source.inode != found.st_ino:
            return False
        return copy.source.ctime_ns == ITSELF_NS or copy.source == Source.of(found)

    def intend(self, copies: Iterable[tuple[bytes, Copy]]) -> None:
        """Records which copies are about to get these names. If it raises OSError, none may get its
        name."""
        copies = list(copies)
        self._write(
            b"".join(
                b"c %d %d %d %d %d %d %d %s\0" % (*copy.source, *copy.identity, path)
                for path, copy in copies
            )
        )
        self._intended.update(copies)

    def done(self, path: bytes, copy: Copy) -> None:
        """Records that a name was given as intended; but not if it was then given to another
        rank."""
        self.gone(path)
        if self._intended.pop(path, copy) is not None:
            self.copies[path] = copy
            self._of_inode.setdefault(copy.source.inode, set()).add(path)

    def give(self, path: bytes, identity: Identity) -> bool:
        """Gives the copy at `path` to another rank. Returns whether it is of this rank, which may
        have just named it, or be about to remove it."""
        if (copy := self.copies.get(path)) is not None and copy.identity == identity:
            self.gone(path)
        elif (copy := self._intended.get(path)) is not None and copy.identity == identity:
            self._intended[path] = None
            self.took(path, identity)
        return self._former.get(path) == identity

    def took(self, path: bytes, identity: Identity) -> None:
        """Records that another rank gave its copy at `path`, which this rank replaces."""
        self._former[path] = identity

    def copies_of(self, inode: int) -> list[bytes]:
        """Returns the paths of all versions of a file."""
        return list(self._of_inode.get(inode, ()))

    def make(self, path: bytes) -> None:
        """Records that a directory is about to be made."""
        self._write(b"d %s\0" % path)

    def below(self, path: bytes) -> list[bytes]:
        """Returns the copies below a directory."""
        return [each for each in list(self.copies) if each.startswith(path + b"/")]

    def discard(self) -> None:
        """Empties the file, because nothing is left to do for the job's outputs."""
        self.close()
        with contextlib.suppress(FileNotFoundError):
            os.truncate(self.path, 0)

    def close(self) -> None:
        """Closes the file. What was placed stays in memory."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def take_over(self, identify: Callable[[bytes], os.stat_result | None]) -> None:
        """Reads the file of another process. identify: returns lstat(2) of a path below the output
        directory, or None; a record counts only if it matches the file that is there."""
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
        """Records that a copy no longer exists."""
        before = self.copies.pop(path, None)
        if before is not None:
            self._of_inode[before.source.inode].discard(path)
            self._former[path] = before.identity

    def _write(self, text: bytes) -> None:
        """Appends whole records. Removes a record that a full disk cuts short."""
        if not text:
            return
        end = os.lseek(self._fd, 0, os.SEEK_END)
        # Reserved early, so that a full disk does not end stage-out.
        if end + len(text) > self._reserved:
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
    """Returns whether `discard` emptied the file at `path`: then nothing is left to do for the
    outputs of its job."""
    with contextlib.suppress(OSError):
        return os.stat(path).st_size == 0
    return False


def read_header(path: str) -> Header | None:
    """Returns the header of the file at `path`; None if the file is missing or its header
    incomplete."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        with open(path, "rb") as stream:
            text = stream.read(1 << 20).partition(b"\0")[0]
        about = json.loads(text)
        if about.pop("version") == _VERSION:
            return Header(**{**about, "folders": tuple(about["folders"])})
    return None


def read_lines(path: str) -> Iterator[tuple[bytes, bytes, Copy | None]]:
    """Yields the kind, path and copy of each complete record after the header."""
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
