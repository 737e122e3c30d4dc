"""Sources: they list entries and read their content."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fanstore._native import check, ffi, lib
from fanstore.arrays import np
from fanstore.errors import UsageError
from fanstore.prepare.room import ArrayRoom
from fanstore.prepare.tree import SourceTree, scan_directory

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHANGED = "changed while it was read"
# Stands for standard input.
STDIN = Path("-")


class Unreadable(Exception):
    """A piece of a file could not be read. The message is the reason."""


class PackSource(Protocol):
    """The interface of a source. A `sequential` source must be read in order, by one thread."""

    tree: SourceTree
    sequential: bool

    def read_files(
        self, ids: Sequence[int], places: Sequence[int], buffer: memoryview
    ) -> dict[int, str]:
        """Reads whole files, ids[i] to buffer[places[i]:], and fills the gaps with zeros up to the
        last place. Returns the reason for each file that failed."""

    def read_piece(self, number: int, start: int, buffer: memoryview) -> None:
        """Reads a piece of one file, from `start` on, into `buffer`. Raises Unreadable."""

    def try_open(self) -> dict[int, str]:
        """Opens each file without reading it. Returns the files that cannot be opened, with the
        reasons."""

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Drops all entries whose `mask` is False."""

    def close(self) -> None:
        """Closes the source's files."""


class SequentialSource:
    """A source that is read from front to back: pieces of a file in turn, and files in the order of
    their ordinals. Subclasses implement `read_piece`."""

    sequential = True
    tree: SourceTree

    def read_piece(self, number: int, start: int, buffer: memoryview) -> None:
        """Reads a piece of one file, from `start` on, into `buffer`. Raises Unreadable."""
        raise NotImplementedError

    def read_files(
        self, ids: Sequence[int], places: Sequence[int], buffer: memoryview
    ) -> dict[int, str]:
        failed = {}
        sizes = self.tree.entries["size"][list(ids)].tolist()
        for number, size, place, after in zip(ids, sizes, places, places[1:], strict=False):
            try:
                self.read_piece(number, 0, buffer[place : place + size])
            except Unreadable as error:
                failed[number] = str(error)
                size = 0
            buffer[place + size : after] = bytes(after - place - size)
        return failed

    def try_open(self) -> dict[int, str]:
        """Returns {}: the archives that hold the entries are open already."""
        return {}

    def keep(self, mask: NDArray[np.bool_]) -> None:
        self.tree = self.tree.filtered(mask)


def reason_of(error: int) -> str:
    """Returns the text for an error that fan_gather reports."""
    return CHANGED if error == lib.FAN_GATHER_CHANGED else os.strerror(error)


class DirectorySource:
    """A directory as a source, with everything below it (in a ListedSource, only the entries of a
    list). scratch: a directory for the files of large arrays."""

    sequential = False

    def __init__(self, path: str | os.PathLike[str], scratch: Path | None = None) -> None:
        self.path = Path(path)
        self.room = ArrayRoom(scratch)
        try:
            self.root_fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except NotADirectoryError as error:
            raise UsageError(f"{path}: not a directory") from error
        try:
            self.tree = self.scan()
        except BaseException:
            self.close()
            raise

    def scan(self) -> SourceTree:
        """Lists everything below the root, and returns the tree."""
        return scan_directory(self.root_fd, self.room)

    def read_files(
        self, ids: Sequence[int], places: Sequence[int], buffer: memoryview
    ) -> dict[int, str]:
        errors = ffi.new("int32_t[]", len(ids))
        failed = lib.fan_gather(
            self.root_fd, self._entries(), self._names(), ids, len(ids), places,
            ffi.from_buffer(buffer), errors,
        )  # fmt: skip
        if check(failed) == 0:
            return {}
        return {ids[i]: reason_of(error) for i, error in enumerate(errors) if error}

    def read_piece(self, number: int, start: int, buffer: memoryview) -> None:
        entries = self._entries()
        fd = lib.fan_gather_open(self.root_fd, entries, self._names(), number)
        if fd < 0:
            raise Unreadable(os.strerror(-fd))
        try:
            _read_fully(fd, start, buffer)
            error = abs(lib.fan_gather_check(fd, entries + number))
        except OSError as failure:
            raise Unreadable(failure.strerror) from failure
        finally:
            os.close(fd)
        if error:
            raise Unreadable(reason_of(error))

    def try_open(self) -> dict[int, str]:
        content, failed = self.tree.content, dict[int, str]()
        for part in self.room.pieces(len(content)):
            ids = content[part]
            errors = np.zeros(len(ids), np.int32)
            lib.fan_gather_try(
                self.root_fd, self._entries(), self._names(),
                ffi.from_buffer("uint64_t[]", ids.astype("<u8")), len(ids),
                ffi.from_buffer("int32_t[]", errors),
            )  # fmt: skip
            failed |= {int(ids[at]): reason_of(int(errors[at])) for at in np.flatnonzero(errors)}
        return failed

    def keep(self, mask: NDArray[np.bool_]) -> None:
        self.tree = self.tree.filtered(mask)

    def close(self) -> None:
        os.close(self.root_fd)
        self.room.close()

    def _entries(self) -> Any:
        return ffi.from_buffer("struct fan_scan_entry[]", self.tree.entries)

    def _names(self) -> Any:
        return ffi.from_buffer("char[]", self.tree.names)


def _read_fully(fd: int, start: int, buffer: memoryview) -> None:
    done = 0
    while done < len(buffer):
        count = os.preadv(fd, [buffer[done:]], start + done)
        if count == 0:
            raise Unreadable(CHANGED)
        done += count
