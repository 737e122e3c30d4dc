"""Follows what programs changed themselves in the names segment, in its order: in the name tables,
the drafts, and what stage-out is told."""

from __future__ import annotations

from collections.abc import Sequence

from fanstore.outputs.model import changes
from fanstore.outputs.model.changes import Change
from fanstore.outputs.model.entries import FREE, Entry, Place, Slot
from fanstore.outputs.namespace.context import Context
from fanstore.outputs.ranks.homes import HomeServer


class Following:
    """Brings all that this rank knows up to date with the log of its segment: of the names that it
    keeps, whoever changed them, and of what its own programs did, wherever the names are."""

    def __init__(self, context: Context, home_server: HomeServer) -> None:
        self._context = context
        self._home_server = home_server
        self._name_tables = home_server.name_tables
        self._created_at: dict[int, Place] = {}

    def catch_up(self) -> bool:
        """Follows all changes so far; tells whether there were any."""
        followed: bool = self._name_tables.segment.follow(self._follow)
        return followed

    def _follow(self, log: Sequence[Change]) -> None:
        # What was created and published since the last time was never seen as a draft; unless names
        # were moved or removed meanwhile it is published where it was created.
        published = {each.object_id for each in log if each.kind == changes.PUBLISHED}
        names_stay = not any(each.kind in (changes.MOVED, changes.REMOVED) for each in log)
        with self._context.observer.together():
            for change in log:
                is_ended = change.kind == changes.CREATED and change.object_id in published
                if change.elsewhere and is_ended:
                    self._created_at[change.object_id] = change.place
                if not change.elsewhere and not (is_ended and names_stay):
                    self._follow_name(change)
                if change.rank == self._context.peers.rank and not is_ended:
                    self._follow_program(change)

    def _follow_name(self, change: Change) -> None:
        """Follows the change of a name that this rank keeps."""
        kind, place, tables = change.kind, change.place, self._name_tables
        if kind == changes.ALTERED:
            entry = tables.get(place)
            assert entry is not None
            tables.change(place, entry.object_id, change.attr)
            if change.object_id:
                tables.set_time(place.mount, place.path)
            return
        slot = FREE
        if kind == changes.MOVED:
            tables.put(change.to, tables.slot(place), change.when_ns)
        elif kind == changes.CREATED:
            slot = Slot(None, change.object_id)
        elif kind != changes.REMOVED:
            slot = Slot(Entry(change.object_id, change.attr))
        old = tables.put(place, slot, change.when_ns)
        if kind == changes.MADE:
            self._home_server.made(place.mount, place.path)
        elif kind == changes.REMOVED and old.entry is not None and old.entry.is_directory:
            self._home_server.removed(place.mount, place.path)

    def _follow_program(self, change: Change) -> None:
        """Follows what a program of this rank did. Objects that it moves or replaces are always
        this rank's."""
        kind, place, context = change.kind, change.place, self._context
        if kind == changes.CREATED:
            context.drafts.begin(place, change.object_id, change.pid)
            return
        if kind == changes.PUBLISHED:
            self._published(change)
            return
        if change.gone:
            context.note_place(change.gone, None)
        if kind == changes.MOVED:
            context.observer.changed(change.to)
            if change.object_id:
                context.note_place(change.object_id, change.to)
        context.observer.changed(place)

    def _published(self, change: Change) -> None:
        drafts, object_id = self._context.drafts, change.object_id
        place: Place | None = change.place
        if change.elsewhere:  # it may have been moved already, or removed
            place = self._created_at.pop(object_id, None) or drafts.place_of(object_id)
        drafts.published(object_id)
        if place is not None:
            self._context.note(place, Entry(object_id, change.attr))
