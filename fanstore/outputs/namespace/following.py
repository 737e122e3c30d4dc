"""Follows what programs changed themselves in the names segment, in its order: in the name tables,
the drafts, and what stage-out is told."""

from __future__ import annotations

from collections.abc import Sequence

from fanstore.outputs.model import changes
from fanstore.outputs.model.changes import Change
from fanstore.outputs.model.entries import Entry, Slot
from fanstore.outputs.model.interfaces import Drafts, ObjectStore, Observer
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.model.segment import NameSegment
from fanstore.outputs.namespace.publishing import Publishing
from fanstore.outputs.ranks.home_server import HomeServer

# Changes after which what was created is published where it was created.
_NAMES_STAY = frozenset((changes.CREATED, changes.PUBLISHED, changes.MADE))


class Following:
    """Brings all that this rank knows of names up to date with the segment."""

    def __init__(
        self,
        segment: NameSegment,
        name_tables: NameTables,
        drafts: Drafts,
        store: ObjectStore,
        publishing: Publishing,
        observer: Observer,
        home_server: HomeServer,
    ) -> None:
        self._segment = segment
        self._name_tables = name_tables
        self._drafts = drafts
        self._store = store
        self._publishing = publishing
        self._observer = observer
        self._home_server = home_server
        self._at_once: set[int] = set()
        self._steps = {
            changes.CREATED: self._created,
            changes.PUBLISHED: self._published,
            changes.MOVED: self._moved,
            changes.REMOVED: self._gone,
            changes.MADE: self._made,
        }

    def catch_up(self) -> bool:
        """Follows all changes so far; tells whether there were any."""
        return self._segment.follow(self._follow)

    def _follow(self, log: Sequence[Change]) -> None:
        # What was created and published since the last time was never seen as a draft.
        self._at_once = {each.object_id for each in log if each.kind == changes.PUBLISHED}
        names_stay = all(each.kind in _NAMES_STAY for each in log)
        with self._observer.together():
            for change in log:
                if not (names_stay and self._is_ended(change)):
                    self._steps[change.kind](change)

    def _is_ended(self, change: Change) -> bool:
        return change.kind == changes.CREATED and change.object_id in self._at_once

    def _created(self, change: Change) -> None:
        slot = Slot(None, change.object_id)
        self._name_tables.follow(change.place, slot, change.when_ns)
        if not self._is_ended(change):
            self._drafts.begin(change.place, change.object_id, change.pid)

    def _published(self, change: Change) -> None:
        entry = Entry(change.object_id, change.attr)
        self._name_tables.follow(change.place, Slot(entry), change.when_ns)
        self._drafts.published(change.object_id)
        self._publishing.note(change.place, entry)

    def _moved(self, change: Change) -> None:
        slot = self._name_tables.slot(change.place)
        replaced = self._name_tables.follow(change.to, slot, change.when_ns)
        self._name_tables.follow(change.place, Slot(), change.when_ns)
        self._discard(replaced)
        self._observer.changed(change.to)
        self._observer.changed(change.place)
        if slot.entry is not None:
            self._publishing.moved(slot.entry.object_id, change.to)

    def _gone(self, change: Change) -> None:
        removed = self._name_tables.follow(change.place, Slot(), change.when_ns)
        if removed.entry is not None and removed.entry.is_directory:
            self._home_server.removed(change.place.mount, change.place.path)
        self._discard(removed)
        self._observer.changed(change.place)

    def _made(self, change: Change) -> None:
        entry = Entry(change.object_id, change.attr)
        self._name_tables.follow(change.place, Slot(entry), change.when_ns)
        self._home_server.made(change.place.mount, change.place.path)
        self._observer.changed(change.place)

    def _discard(self, slot: Slot) -> None:
        if slot.entry is not None and slot.entry.is_file:
            self._publishing.unnamed(slot.entry.object_id)
            self._store.discard(slot.entry.object_id)
