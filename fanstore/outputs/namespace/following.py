"""Follows what programs changed themselves in the names segment, in its order: in the name tables,
the drafts, and what stage-out is told."""

from __future__ import annotations

from collections.abc import Sequence

from fanstore.outputs.drafts.drafts import Drafts
from fanstore.outputs.model import changes
from fanstore.outputs.model.changes import Change
from fanstore.outputs.model.entries import Entry, Place, Slot
from fanstore.outputs.model.interfaces import Observer
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.model.segment import NameSegment
from fanstore.outputs.namespace.publishing import Publishing
from fanstore.outputs.objects.objects import ObjectStore
from fanstore.outputs.ranks.home_server import HomeServer

# Changes after which what was created is published where it was created.
_NAMES_STAY = frozenset((changes.CREATED, changes.PUBLISHED, changes.MADE, changes.ALTERED))


class Following:
    """Brings all that this rank knows up to date with the log of its segment: of the names that it
    keeps, whoever changed them, and of what its own programs did, wherever the names are."""

    def __init__(
        self,
        rank: int,
        segment: NameSegment,
        name_tables: NameTables,
        drafts: Drafts,
        store: ObjectStore,
        publishing: Publishing,
        observer: Observer,
        home_server: HomeServer,
    ) -> None:
        self._rank = rank
        self._segment = segment
        self._name_tables = name_tables
        self._drafts = drafts
        self._store = store
        self._publishing = publishing
        self._observer = observer
        self._home_server = home_server
        self._at_once: set[int] = set()
        self._created_at: dict[int, Place] = {}
        self._names = {
            changes.CREATED: self._name_created,
            changes.PUBLISHED: self._name_published,
            changes.MOVED: self._name_moved,
            changes.REMOVED: self._name_removed,
            changes.MADE: self._name_made,
            changes.ALTERED: self._name_altered,
        }
        self._steps = {
            changes.CREATED: self._created,
            changes.PUBLISHED: self._published,
            changes.MOVED: self._moved,
            changes.REMOVED: self._removed,
            changes.MADE: self._made,
            changes.ALTERED: self._altered,
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
                is_ended = change.kind == changes.CREATED and change.object_id in self._at_once
                if change.elsewhere and is_ended:
                    self._created_at[change.object_id] = change.place
                if names_stay and is_ended:
                    continue
                if not change.elsewhere:
                    self._names[change.kind](change)
                if change.rank == self._rank and not is_ended:
                    self._steps[change.kind](change)

    # Names that this rank keeps.

    def _name_created(self, change: Change) -> None:
        slot = Slot(None, change.object_id)
        self._name_tables.follow(change.place, slot, change.when_ns)

    def _name_published(self, change: Change) -> None:
        slot = Slot(Entry(change.object_id, change.attr))
        self._name_tables.follow(change.place, slot, change.when_ns)

    def _name_moved(self, change: Change) -> None:
        slot = self._name_tables.slot(change.place)
        self._name_tables.follow(change.to, slot, change.when_ns)
        self._name_tables.follow(change.place, Slot(), change.when_ns)

    def _name_removed(self, change: Change) -> None:
        removed = self._name_tables.follow(change.place, Slot(), change.when_ns)
        if removed.entry is not None and removed.entry.is_directory:
            self._home_server.removed(change.place.mount, change.place.path)

    def _name_made(self, change: Change) -> None:
        slot = Slot(Entry(change.object_id, change.attr))
        self._name_tables.follow(change.place, slot, change.when_ns)
        self._home_server.made(change.place.mount, change.place.path)

    def _name_altered(self, change: Change) -> None:
        entry = self._name_tables.get(change.place)
        assert entry is not None
        self._name_tables.set_attr(change.place, entry.object_id, change.attr)
        if change.object_id:
            self._name_tables.set_time(change.place.mount, change.place.path)

    # What programs of this rank did. Objects that they move or replace are always this rank's.

    def _created(self, change: Change) -> None:
        self._drafts.begin(change.place, change.object_id, change.pid)

    def _published(self, change: Change) -> None:
        place = self._place_of(change)
        self._drafts.published(change.object_id)
        if place is not None:
            self._publishing.note(place, Entry(change.object_id, change.attr))

    def _place_of(self, change: Change) -> Place | None:
        """Returns where a published object has its name: elsewhere it may have been moved already,
        or removed."""
        if not change.elsewhere:
            return change.place
        created_at = self._created_at.pop(change.object_id, None)
        return created_at or self._drafts.place_of(change.object_id)

    def _moved(self, change: Change) -> None:
        self._discard(change)
        self._observer.changed(change.to)
        self._observer.changed(change.place)
        if change.object_id:
            self._publishing.moved(change.object_id, change.to)

    def _removed(self, change: Change) -> None:
        self._discard(change)
        self._observer.changed(change.place)

    def _made(self, change: Change) -> None:
        if change.elsewhere:
            self._home_server.made(change.place.mount, change.place.path)
        self._observer.changed(change.place)

    def _altered(self, change: Change) -> None:
        self._observer.changed(change.place)

    def _discard(self, change: Change) -> None:
        if change.gone:
            self._publishing.unnamed(change.gone)
            self._store.discard(change.gone)
