"""The names in the directories of which this rank is the home.

Each method is one atomic step and raises OSError. Nothing here waits or asks other ranks: that is
home_server.py's part. A step that names an object returns None, and changes nothing, when the name
stands for something else by now: the caller looks again."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fanstore.outputs.model.entries import (
    Attr,
    Changes,
    Entry,
    Listing,
    Place,
    Slot,
    failure,
    owner_of,
)

Key = tuple[int, bytes]  # mount, directory


@dataclass
class Table:
    """The names in one directory. known: it is certain that the directory is there. announced: all
    ranks know that there may be names. mtime_ns: when they changed; 0: not since the time that its
    entry has."""

    names: dict[bytes, Slot] = field(default_factory=dict)
    known: bool = False
    announced: bool = False
    mtime_ns: int = 0


@dataclass(frozen=True)
class Reservation:
    """The answer to a wish to write. taken: by the object that asked. entry: what it replaces.
    draft: who has it, if not that one; when that is None, too, the name is no file any more."""

    taken: bool
    entry: Entry | None = None
    draft: int | None = None


@dataclass(frozen=True)
class Removed:
    """What a name stood for: both have no name any more."""

    entry: Entry | None = None
    draft: int | None = None


class NameTables:
    """All tables of this rank."""

    def __init__(self) -> None:
        self._tables: dict[Key, Table] = {}

    def table(self, mount: int, directory: bytes) -> Table:
        """That of a directory, made if need be."""
        return self._tables.setdefault((mount, directory), Table())

    def is_known(self, mount: int, directory: bytes) -> bool:
        """Whether it is certain that a directory is there."""
        table = self._tables.get((mount, directory))
        return table is not None and table.known

    def slot(self, place: Place) -> Slot:
        """A copy of what a name stands for; an empty one when it is free."""
        table = self._tables.get((place.mount, place.directory))
        found = table.names.get(place.name) if table else None
        return Slot(found.entry, found.draft) if found else Slot()

    def get(self, place: Place) -> Entry | None:
        """What everybody sees there."""
        return self.slot(place).entry

    def list(self, mount: int, directory: bytes) -> Listing:
        """All that is published in a directory."""
        table = self._tables.get((mount, directory))
        slots = table.names.items() if table else ()
        return [(name, slot.entry) for name, slot in slots if slot.entry is not None]

    def is_empty(self, mount: int, directory: bytes) -> bool:
        """Whether a directory has no names, drafts included."""
        table = self._tables.get((mount, directory))
        return table is None or not table.names

    def reserve(self, place: Place, object_id: int, create: bool, exclusive: bool) -> Reservation:
        """An object is to be written under a name. EEXIST, ENOENT, EISDIR."""
        slot = self.slot(place)
        if create and exclusive and (slot.entry or slot.draft is not None):
            raise failure(errno.EEXIST, place.path)
        if slot.draft is not None:
            return Reservation(False, slot.entry, slot.draft)
        if slot.entry is None and not create:
            raise failure(errno.ENOENT, place.path)
        if slot.entry and slot.entry.is_directory:
            raise failure(errno.EISDIR, place.path)
        if slot.entry and not slot.entry.is_file:
            return Reservation(False, slot.entry)
        self._put(place, Slot(slot.entry, object_id))
        return Reservation(True, slot.entry)

    def release(self, place: Place, object_id: int) -> None:
        """The object is not written any more."""
        slot = self.slot(place)
        if slot.draft == object_id:
            self._put(place, Slot(slot.entry))

    def publish(self, place: Place, entry: Entry) -> Removed | None:
        """The object under whose draft the name is becomes what it stands for. What was
        replaced."""
        slot = self.slot(place)
        if slot.draft != entry.object_id:
            return None
        self._put(place, Slot(entry))
        return Removed(slot.entry)

    def insert(self, place: Place, entry: Entry) -> None:
        """A new name. EEXIST."""
        slot = self.slot(place)
        if slot.entry or slot.draft is not None:
            raise failure(errno.EEXIST, place.path)
        self._put(place, Slot(entry))

    def put(self, place: Place, slot: Slot, before: int | None, replace: bool) -> Removed | None:
        """What was renamed comes under its new name. before: what that stood for when it was looked
        at, a draft if nothing else. A draft alone leaves the entry there. EEXIST."""
        old = self.slot(place)
        if not replace and (old.entry or old.draft is not None):
            raise failure(errno.EEXIST, place.path)
        if (old.entry.object_id if old.entry else None) != before:
            return None
        if slot.entry is None:
            self._put(place, Slot(old.entry, slot.draft), True)
            return Removed(None, old.draft)
        self._put(place, slot, True)
        return Removed(old.entry, old.draft)

    def move(
        self, old: Place, new: Place, moved: int, before: int | None, replace: bool
    ) -> tuple[Slot, Removed] | None:
        """Renames within this home: take and put in one."""
        slot = self.slot(old)
        if not slot.knows(moved):
            return None
        replaced = self.put(new, slot, before, replace)
        if replaced is None:
            return None
        self._put(old, Slot())
        return slot, replaced

    def remove(self, place: Place, object_id: int) -> Removed | None:
        """A name goes, whatever it is published or being written under it, if it is that object."""
        slot = self.slot(place)
        if not slot.knows(object_id):
            return None
        self._put(place, Slot())
        return Removed(slot.entry, slot.draft)

    def change(self, place: Place, object_id: int, changes: Changes) -> Entry | None:
        """New attributes of what is there."""
        entry = self.get(place)
        if entry is None or entry.object_id != object_id:
            return None
        return self.set_attr(place, object_id, changes.of(entry.attr, time.time_ns()))

    def set_attr(self, place: Place, object_id: int, attr: Attr) -> Entry | None:
        """The same, all of them."""
        table = self._tables.get((place.mount, place.directory))
        slot = table.names.get(place.name) if table else None
        if slot is None or slot.entry is None or slot.entry.object_id != object_id:
            return None
        slot.entry = replace(slot.entry, attr=attr)
        return slot.entry

    def drop_drafts(self, rank: int) -> None:
        """Nothing that a rank was writing will be finished."""
        for (mount, directory), table in self._tables.items():
            for name, slot in list(table.names.items()):
                if slot.draft is not None and owner_of(slot.draft) == rank:
                    self._put(Place(mount, directory, name), Slot(slot.entry))

    def set_slot(self, place: Place, slot: Slot) -> None:
        """A name stands for that from now on, whatever it was."""
        self._put(place, slot, True)

    def changed_ns(self, mount: int, directory: bytes) -> int:
        """When the names in a directory changed; 0: not since the time that its entry has."""
        table = self._tables.get((mount, directory))
        return table.mtime_ns if table else 0

    def set_time(self, mount: int, directory: bytes) -> None:
        """A directory was given a time: its entry has it."""
        if (mount, directory) in self._tables:
            self._tables[mount, directory].mtime_ns = 0

    def forget(self, mount: int, directory: bytes) -> None:
        """A directory is gone, or nobody knows."""
        self._tables.pop((mount, directory), None)

    def below(self, mount: int, directory: bytes) -> Iterator[bytes]:
        """Those directories with a table that are `directory` or lie in it, at any depth."""
        inside = directory + b"/"
        for table_mount, table in self._tables:
            if table_mount == mount and (table == directory or table.startswith(inside)):
                yield table

    def tables(self, mount: int, directory: bytes) -> dict[bytes, Table]:
        """Those of a directory and all below it, by directory: this one's as b"", those below
        as the rest of their paths."""
        found = self.below(mount, directory)
        return {each[len(directory) :]: self._tables[mount, each] for each in found}

    def drop_tables(self, mount: int, directory: bytes) -> None:
        """A directory and all below it are gone."""
        for found in list(self.below(mount, directory)):
            self.forget(mount, found)

    def put_tables(self, mount: int, tables: Mapping[bytes, Table]) -> None:
        """Takes over the tables of directories, which are certain to be there."""
        for directory, table in tables.items():
            names = dict(table.names)
            self._tables[mount, directory] = Table(names, known=True, mtime_ns=table.mtime_ns)

    def entries(self) -> Iterable[tuple[Place, Entry]]:
        """All that is published here."""
        for (mount, directory), table in self._tables.items():
            for name, slot in table.names.items():
                if slot.entry is not None:
                    yield Place(mount, directory, name), slot.entry

    def _put(self, place: Place, slot: Slot, renamed: bool = False) -> None:
        table = self.table(place.mount, place.directory)
        old = table.names.get(place.name, _FREE)
        # A new version of a file is no change of its directory.
        if renamed or _shows(old) != _shows(slot):
            table.mtime_ns = time.time_ns()
        if slot == _FREE:
            table.names.pop(place.name, None)
        else:
            table.names[place.name] = slot


_FREE = Slot()


def _shows(slot: Slot) -> tuple[bool, bool]:
    """Whether there is something: to everybody, and to anybody."""
    return slot.entry is not None, slot.entry is not None or slot.draft is not None
