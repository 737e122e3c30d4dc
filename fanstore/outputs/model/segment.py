"""The names of outputs as programs of this node read and change them without asking: the names
segment (csrc/format/names_format.h)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from fanstore._native import check, ffi, lib
from fanstore.outputs.model.changes import Change, parse
from fanstore.outputs.model.entries import Place, Slot
from fanstore.outputs.model.wire import attr_fields

FILE = "names"
MOST_BYTES = 256 << 20  # a million names; room on the disk is taken as they come


def _calls(function: Any, otherwise: Any = None) -> Callable[..., Any]:
    """Returns a method that calls a function of csrc/names; without a segment it returns
    `otherwise`."""

    def method(self: NameSegment, *args: Any) -> Any:
        return otherwise if self._writer is None else function(self._writer, *args)

    return method


def _shows(function: Any) -> Callable[..., None]:
    """Returns a method that shows something of a directory. What is followed is shown already."""

    def method(self: NameSegment, mount: int, directory: bytes, *rest: Any) -> None:
        if self._writer is not None and not self._follows:
            function(self._writer, mount, directory, len(directory), *rest)

    return method


class NameSegment:
    """What the name tables show to programs. A directory is covered, from `cover` to `uncover`,
    when all its names are there; where there is no room for them any more, it is not. One that was
    not opened, or is closed, shows nothing, and programs ask about all names."""

    def __init__(self) -> None:
        self._writer: Any = None
        self._follows = False
        self._attr: Any = ffi.new("struct fan_output_attr *")
        self._log: Any = ffi.new("const char **")

    def open(self, directory: str, rank: int, world_size: int) -> None:
        """Makes the segment in a job's directory, in the thread that is going to write and close
        it: programs see when that ends. Raises OSError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(os.path.join(directory, FILE), flags, 0o600)
        writer = ffi.new("struct fan_names_writer **")
        check(lib.fan_names_open(fd, rank, world_size, MOST_BYTES, writer))
        self._writer = writer[0]

    def close(self) -> None:
        """Has programs ask from now on."""
        if self._writer is not None:
            lib.fan_names_close(self._writer)
            self._writer = None

    # Begins to show a directory, with no names yet. One that is covered stays as it is.
    cover = _shows(lib.fan_names_cover)
    # Shows a directory's names no more.
    uncover = _shows(lib.fan_names_uncover)
    # Lets programs change the names in a directory that is covered.
    open_directory = _shows(lib.fan_names_open_directory)
    # Has programs ask for changes in a directory, until it is opened again.
    close_directory = _shows(lib.fan_names_close_directory)
    # Shows when the names in a directory changed, in nanoseconds.
    set_time = _shows(lib.fan_names_changed)

    def put(self, place: Place, slot: Slot, changed_ns: int) -> None:
        """Shows what a name stands for, and when its directory changed."""
        if self._writer is None or self._follows:
            return
        attr, target = ffi.NULL, b""
        if slot.entry is not None:
            attr, target = self._attr, slot.entry.target
            attr[0] = attr_fields(slot.entry)
        path, ask = place.path, slot.draft is not None
        lib.fan_names_put(
            self._writer, place.mount, path, len(path), attr, target, len(target), ask, changed_ns
        )

    # Has programs ask about everything for as long as names are moved as a whole.
    freeze = _calls(lib.fan_names_freeze)
    # Notes that a change was made that a program had announced.
    done = _calls(lib.fan_names_done)
    # Returns how many changes were announced so far.
    announced = _calls(lib.fan_names_announced, 0)
    # Notes that of the changes that were announced until then no more will come.
    settle = _calls(lib.fan_names_settle)

    # What programs change themselves.

    # Lets them change names in the directories that were opened; nothing is written here until
    # `hold`.
    let = _calls(lib.fan_names_let)
    # Has them ask for every change from now on. What they did themselves can be followed.
    hold = _calls(lib.fan_names_hold)
    # Has them wake this thread at their next change; False: there was one meanwhile.
    sleep = _calls(lib.fan_names_sleep, True)
    # Keeps them from publishing an object that one of them created: they ask from now on. What they
    # did until then can be followed.
    take_draft = _calls(lib.fan_names_take_draft)

    def follow(self, change: Callable[[Sequence[Change]], None]) -> bool:
        """Has `change` follow what programs did since the last time, which is shown already.
        Tells whether there was anything."""
        if self._writer is None or self._follows:
            return False
        size = lib.fan_names_log(self._writer, self._log)
        if size == 0:
            return False
        self._follows = True
        try:
            change(list(parse(bytes(ffi.buffer(self._log[0], size)))))
        finally:
            self._follows = False
            lib.fan_names_followed(self._writer, size)
        return True
