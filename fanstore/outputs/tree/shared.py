"""Reads what the programs of a node report about its output tree in the job's segment
(csrc/format/shm_format.h, struct fan_outputs)."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from fanstore._native import ffi, lib
from fanstore.process_stat import stat_of

_KILLED = int(lib.FAN_WRITER_KILLED)
_NAMESPACE = "/proc/self/ns/pid"
_WRITER = struct.Struct("=IIQ")  # a struct fan_writer


def set_up(path: str) -> None:
    """Writes the inode of the PID namespace, in which programs' process numbers count, into a new
    segment, before the first program starts."""
    with _Segment(path) as outputs:
        outputs.namespace_inode = os.stat(_NAMESPACE).st_ino


class _Segment:
    """Maps the struct fan_outputs in the segment at `path`."""

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as stream:
            self._mapping = mmap.mmap(stream.fileno(), 0)
        header = ffi.new("struct fan_job_header *")
        size = ffi.sizeof("struct fan_job_header")
        ffi.buffer(header)[:] = self._mapping[:size]
        self._view = memoryview(self._mapping)[int(header.outputs_offset) :]
        self.outputs = ffi.from_buffer("struct fan_outputs *", self._view)

    def __enter__(self) -> Any:
        return self.outputs

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Unmaps the segment."""
        ffi.release(self.outputs)
        self._view.release()
        self._mapping.close()


class Shared:
    """The struct fan_outputs of a job, which its programs share with the daemon."""

    def __init__(self, segment: str) -> None:
        self._segment = _Segment(segment)
        self._outputs = self._segment.outputs
        # Inodes of files that were open for writing at the last check.
        self.written: set[int] = set()
        self._sees = os.stat(_NAMESPACE).st_ino == int(self._outputs.namespace_inode)

    def close(self) -> None:
        """Unmaps the segment."""
        self._segment.close()

    def expect_links(self) -> None:
        """Tells programs that there may be symbolic links in the tree."""
        self._outputs.links = 1

    def is_written(self, inode: int) -> bool:
        """Returns whether a program has a file open for writing, or was killed while it had."""
        return bool(lib.fan_writer_of(self._outputs, inode))

    def visit(self) -> None:
        """Makes programs tell the daemon about each directory that they rename, because other ranks
        may have files in it."""
        self._outputs.visited = 1

    def changed(self) -> None:
        """Counts a change in the tree that the daemon made, not a program."""
        self._count("changes")

    @contextmanager
    def pointing(self) -> Iterator[None]:
        """Counts the beginning and the end of the making of a pointer within the block. Counting
        only one of them is not enough: a program may look at the name between the count and the
        pointer."""
        self._count("pointers")
        try:
            yield
        finally:
            self._count("pointers")
            self._count("changes")

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Counts the beginning and the end of a rename that the daemon makes within the block."""
        self._count("moves_begun")
        try:
            yield
        finally:
            self._count("moves_done")
            self._count("changes")

    def _count(self, name: str) -> None:
        lib.fan_count_up(ffi.addressof(self._outputs, name))

    def changes(self) -> int:
        """Returns the number of changes in the tree so far."""
        return int(self._outputs.changes)

    def moves(self) -> tuple[int, int]:
        """Returns how many renames have begun, and how many of them are done."""
        return int(self._outputs.moves_begun), int(self._outputs.moves_done)

    def unfinished(self, is_written: Callable[[int], bool] = lambda inode: True) -> set[int]:
        """Returns the inode numbers of files whose writers were killed and that no process has
        opened for writing since. Also frees the entries of processes that have ended, and of those
        that do not report the close of a file. is_written: returns whether a process has such a
        file open."""
        killed, written = set(), set()
        entries = bytes(ffi.buffer(self._outputs.writers))
        for number, (process, silent, inode) in enumerate(_WRITER.iter_unpack(entries)):
            if process == 0:
                continue
            writer = self._outputs.writers[number]
            if process != _KILLED and not self._lives(process):
                process = self._end(writer, inode)
            elif silent and process != _KILLED and not is_written(inode):
                writer.silent = writer.process = process = 0
            if process == _KILLED:
                killed.add(inode)
            elif process != 0:
                written.add(inode)
        self.written = written
        return killed - written

    def _end(self, writer: Any, inode: int) -> int:
        """Marks the process of an entry as killed. If it had not yet recorded which file it opens,
        it has written nothing."""
        if inode == 0:
            writer.process = 0
            return 0
        self._outputs.killed += 1
        writer.process = _KILLED
        return _KILLED

    def _lives(self, process: int) -> bool:
        if not self._sees:
            return True
        found = stat_of(process)
        return found is not None and found.runs

    def forget(self, inodes: set[int]) -> None:
        """Frees the entries of killed writers for files that no longer have a name."""
        for writer in self._outputs.writers:
            if int(writer.process) == _KILLED and int(writer.inode) in inodes:
                writer.process = 0
                self._outputs.killed -= 1


def shared_of(job_directory: str) -> Shared | None:
    """Returns the Shared of a dead job; None if its segment no longer exists."""
    with suppress(OSError, ValueError):
        return Shared(os.path.join(job_directory, "segment"))
    return None
