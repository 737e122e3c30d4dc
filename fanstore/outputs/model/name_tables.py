"""The names in the directories of which this rank is the home rank.

Each method is one atomic step and raises OSError. Nothing here waits or asks other ranks: that is
the part of ranks/homes.py. A step that names an object returns None, and changes nothing,
when the name stands for something else by now: the caller looks again.
"""

from __future__ import annotations

import errno
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fanstore.outputs.model.entries import (
    FREE,
    Attr,
    Changes,
    Entry,
    Place,
    Slot,
    failure,
    owner_of,
)
from fanstore.outputs.model.segment import NameSegment

Key = tuple[int, bytes]  # mount, directory


@dataclass
class Table:
    """The names in one directory. known: it is certain that the directory is there. mtime_ns: when
    they changed; 0: not since the time that its entry has."""

    names: dict[bytes, Slot] = field(default_factory=dict)
    known: bool = False
    mtime_ns: int = 0


class NameTables:
    """The name tables of this rank, one for each directory that has any names. `segment` shows
    those of directories that are known to be there."""

    def __init__(self, segment: NameSegment | None = None) -> None:
        self._tables: defaultdict[Key, Table] = defaultdict(Table)
        self.segment = segment or NameSegment()

    def _read(self, mount: int, directory: bytes) -> Table:
        return self._tables.get((mount, directory), _NO_NAMES)

    def is_known(self, mount: int, directory: bytes) -> bool:
        """Tells whether it is certain that a directory exists."""
        return self._read(mount, directory).known

    def know(self, mount: int, directory: bytes) -> None:
        """Notes that it is certain that a directory exists."""
        table = self._tables[mount, directory]
        table.known = True
        self.segment.cover(mount, directory)
        self.segment.set_time(mount, directory, table.mtime_ns)
        for name, slot in table.names.items():
            self.segment.put(Place(mount, directory, name), slot, table.mtime_ns)

    def slot(self, place: Place) -> Slot:
        """Returns what a name stands for."""
        return self._read(place.mount, place.directory).names.get(place.name, FREE)

    def get(self, place: Place) -> Entry | None:
        """Returns what is published under a name, or None."""
        return self.slot(place).entry

    def list(self, mount: int, directory: bytes) -> Sequence[tuple[bytes, Entry]]:
        """Returns all that is published in a directory."""
        names = self._read(mount, directory).names
        return [(name, slot.entry) for name, slot in names.items() if slot.entry is not None]

    def is_empty(self, mount: int, directory: bytes) -> bool:
        """Tells whether a directory has no names, those of drafts included."""
        return not self._read(mount, directory).names

    def reserve(self, place: Place, object_id: int, create: bool, exclusive: bool) -> Slot:
        """Reserves a name for an object that is to be written. Returns what the name stands for
        after that: it is reserved if that is its draft; without any draft it is no file any more.
        Raises EEXIST, ENOENT or EISDIR."""
        slot = self.slot(place)
        if create and exclusive and slot != FREE:
            raise failure(errno.EEXIST, place.path)
        if slot == FREE and not create:
            raise failure(errno.ENOENT, place.path)
        if slot.draft is None and slot.entry and slot.entry.is_directory:
            raise failure(errno.EISDIR, place.path)
        if slot.draft is None and (slot.entry is None or slot.entry.is_file):
            slot = Slot(slot.entry, object_id)
            self.put(place, slot)
        return slot

    def release(self, place: Place, object_id: int) -> None:
        """Gives a reservation back: the object will not be written."""
        slot = self.slot(place)
        if slot.draft == object_id:
            self.put(place, Slot(slot.entry))

    def publish(self, place: Place, entry: Entry) -> Slot | None:
        """Puts an object under the name that was reserved for it; returns what it replaced, None
        where the name is not its own any more."""
        slot = self.slot(place)
        if slot.published == entry.object_id:
            return FREE  # a program did so itself, and heard nothing of it
        if slot.draft != entry.object_id:
            return None
        return replace(self.put(place, Slot(entry)), draft=None)

    def insert(self, place: Place, entry: Entry) -> None:
        """Adds a name that was free. Raises EEXIST."""
        if self.slot(place) != FREE:
            raise failure(errno.EEXIST, place.path)
        self.put(place, Slot(entry))

    def remove(self, place: Place, object_id: int) -> Slot | None:
        """Removes a name, and returns what it stood for, if it is that object's, published or
        not."""
        return self.put(place, FREE) if self.slot(place).knows(object_id) else None

    def change(self, place: Place, object_id: int, changes: Changes | Attr) -> Entry | None:
        """Changes some attributes of what is there, or replaces all; returns the entry after
        that."""
        slot = self.slot(place)
        if slot.entry is None or slot.published != object_id:
            return None
        attr = changes
        if isinstance(attr, Changes):
            attr = attr.of(slot.entry.attr, time.time_ns())
        changed = replace(slot.entry, attr=attr)
        self.put(place, Slot(changed, slot.draft))
        return changed

    def drop_drafts(self, rank: int) -> None:
        """Frees what a rank that is lost had reserved: nobody will finish that."""
        for (mount, directory), table in self._tables.items():
            for name, slot in list(table.names.items()):
                if slot.draft is not None and owner_of(slot.draft) == rank:
                    self.put(Place(mount, directory, name), Slot(slot.entry))

    def set_slot(self, place: Place, slot: Slot, moved_from: Place | None = None) -> None:
        """Has a name stand for `slot` from now on, whatever was there, and in the same step the
        name of this rank that it is moved from for nothing."""
        self.put(place, slot, time.time_ns())
        if moved_from is not None:
            self.put(moved_from, FREE, time.time_ns())

    def changed_ns(self, mount: int, directory: bytes) -> int:
        """Returns when the names in a directory changed; 0 where its entry has a later time."""
        return self._read(mount, directory).mtime_ns

    def set_time(self, mount: int, directory: bytes) -> None:
        """Notes that a directory was given a time, which its entry has: changed_ns is 0 again."""
        if (mount, directory) in self._tables:
            self._tables[mount, directory].mtime_ns = 0
            self.segment.set_time(mount, directory, 0)

    def forget(self, mount: int, directory: bytes) -> None:
        """Drops the table of a directory that is gone, or may be."""
        self._tables.pop((mount, directory), None)
        self.segment.uncover(mount, directory)

    def below(self, mount: int, directory: bytes) -> Iterator[bytes]:
        """Yields the directories with a table that are `directory` or lie in it, at any depth."""
        inside = directory + b"/"
        for table_mount, table in self._tables:
            if table_mount == mount and (table == directory or table.startswith(inside)):
                yield table

    def tables(self, mount: int, directory: bytes) -> dict[bytes, Table]:
        """Returns the tables of a directory and of all below it, by the rest of their paths: b"" is
        the directory itself."""
        found = self.below(mount, directory)
        return {each[len(directory) :]: self._tables[mount, each] for each in found}

    def drop_tables(self, mount: int, directory: bytes) -> None:
        """Drops the tables of a directory and of all below it, which are gone."""
        for found in list(self.below(mount, directory)):
            self.forget(mount, found)

    def put_tables(self, mount: int, tables: Mapping[bytes, Table]) -> None:
        """Takes over the tables of directories that are certain to exist."""
        for directory, table in tables.items():
            self.forget(mount, directory)
            self._tables[mount, directory] = Table(dict(table.names), mtime_ns=table.mtime_ns)
            self.know(mount, directory)

    def entries(self) -> Iterable[tuple[Place, Entry]]:
        """Yields all that is published in the directories of this rank."""
        for (mount, directory), table in self._tables.items():
            for name, slot in table.names.items():
                if slot.entry is not None:
                    yield Place(mount, directory, name), slot.entry

    def put(self, place: Place, slot: Slot, when_ns: int | None = None) -> Slot:
        """Has a name stand for `slot`, and returns what it stood for. when_ns: when the directory
        has changed; None: now, unless that is a new version of a file."""
        table, old = self._tables[place.mount, place.directory], self.slot(place)
        if when_ns is None and _shows(old) != _shows(slot):
            when_ns = time.time_ns()
        if when_ns is not None:
            table.mtime_ns = when_ns
        if slot == FREE:
            table.names.pop(place.name, None)
        else:
            table.names[place.name] = slot
        self.segment.put(place, slot, table.mtime_ns)
        return old


_NO_NAMES = Table()


def _shows(slot: Slot) -> tuple[bool, bool]:
    """Tells whether there is something to be seen: by everybody, and by anybody at all."""
    return slot.entry is not None, slot.entry is not None or slot.draft is not None
