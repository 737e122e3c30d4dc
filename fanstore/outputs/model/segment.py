"""The names of outputs as programs of this node read them without asking: the names segment
(csrc/format/names_format.h), which the outputs thread alone writes."""

from __future__ import annotations

import os
from typing import Any

from fanstore._native import check, ffi, lib
from fanstore.outputs.model.entries import Place, Slot
from fanstore.outputs.model.wire import fill_attr

FILE = "names"
MOST_BYTES = 256 << 20  # a million names; room on the disk is taken as they come


class NameSegment:
    """What the name tables show to programs. A directory is covered, from `cover` to `uncover`,
    when all its names are there; where there is no room for them any more, it is not. One that was
    not opened, or is closed, shows nothing, and programs ask about all names."""

    def __init__(self) -> None:
        self._writer: Any = None
        self._attr: Any = ffi.new("struct fan_output_attr *")

    def open(self, directory: str, rank: int) -> None:
        """Makes the segment in a job's directory, in the thread that is going to write and close
        it: programs see when that ends. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(os.path.join(directory, FILE), flags, 0o600)
        writer = ffi.new("struct fan_names_writer **")
        check(lib.fan_names_open(fd, rank, MOST_BYTES, writer))
        self._writer = writer[0]

    def close(self) -> None:
        """Has programs ask from now on."""
        if self._writer is not None:
            lib.fan_names_close(self._writer)
            self._writer = None

    def cover(self, mount: int, directory: bytes) -> None:
        """Begins to show a directory, with no names yet. One that is covered stays as it is."""
        if self._writer is not None:
            lib.fan_names_cover(self._writer, mount, directory, len(directory))

    def uncover(self, mount: int, directory: bytes) -> None:
        """Shows a directory's names no more."""
        if self._writer is not None:
            lib.fan_names_uncover(self._writer, mount, directory, len(directory))

    def put(self, place: Place, slot: Slot, changed_ns: int) -> None:
        """Shows what a name stands for, and when its directory changed."""
        if self._writer is None:
            return
        attr, target = ffi.NULL, b""
        if slot.entry is not None:
            attr, target = self._attr, slot.entry.target
            fill_attr(attr, slot.entry)
        path, ask = place.path, slot.draft is not None
        lib.fan_names_put(
            self._writer, place.mount, path, len(path), attr, target, len(target), ask, changed_ns
        )

    def set_time(self, mount: int, directory: bytes, changed_ns: int) -> None:
        """Shows when the names in a directory changed."""
        if self._writer is not None:
            lib.fan_names_changed(self._writer, mount, directory, len(directory), changed_ns)

    def freeze(self, frozen: bool) -> None:
        """Has programs ask about everything for as long as names are moved as a whole."""
        if self._writer is not None:
            lib.fan_names_freeze(self._writer, frozen)

    def done(self) -> None:
        """Notes that a change was made that a program had announced."""
        if self._writer is not None:
            lib.fan_names_done(self._writer)

    def announced(self) -> int:
        """Returns how many changes were announced so far."""
        return 0 if self._writer is None else int(lib.fan_names_announced(self._writer))

    def settle(self, announced: int) -> None:
        """Notes that of the changes that were announced until then no more will come."""
        if self._writer is not None:
            lib.fan_names_settle(self._writer, announced)

    def is_changing(self) -> bool:
        """Tells whether changes were announced that are not made."""
        return self._writer is not None and bool(lib.fan_names_under_way(self._writer))
