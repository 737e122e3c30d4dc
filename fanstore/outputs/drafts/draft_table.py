"""The drafts of this rank, found by object, by place and by process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from fanstore.outputs.drafts.holders import Holder
from fanstore.outputs.model.entries import Attr, Place


@dataclass
class Draft:
    """One object being written, to be published at `place`. original: its attributes as a copy of
    the version before; ending: publishes or drops it; timer: for the next look at it;
    waits_since_s: since when a holder has been about to end; folder: its file's, once that is
    watched."""

    object_id: int
    place: Place
    original: Attr | None = None
    holders: dict[int, Holder] = field(default_factory=dict)
    ending: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    waits_since_s: float | None = None
    folder: bytes | None = None


class DraftTable:
    """The drafts of this rank. Objects that are no drafts are unknown here."""

    def __init__(self) -> None:
        self._drafts: dict[int, Draft] = {}
        self._by_place: dict[Place, Draft] = {}
        self._by_pid: dict[int, set[int]] = {}

    def __len__(self) -> int:
        return len(self._drafts)

    def at(self, place: Place) -> int | None:
        """Returns the draft that is to be published at `place`, or None."""
        draft = self._by_place.get(place)
        return None if draft is None else draft.object_id

    def find(self, place: Place, pid: int) -> int | None:
        """Returns the draft that is to be published at `place` if that process holds it, else
        None."""
        draft = self._by_place.get(place)
        return None if draft is None or pid not in draft.holders else draft.object_id

    def held(self, mount: int, directory: bytes, pid: int) -> list[tuple[bytes, int]]:
        """Names and objects of the drafts that a process holds in a directory."""
        places = [(draft.place, draft.object_id) for draft in self.of_process(pid)]
        return [
            (place.name, number)
            for place, number in places
            if place.mount == mount and place.directory == directory
        ]

    def within(self, mount: int, directory: bytes) -> list[int]:
        """Returns the drafts that are to be published in a directory."""
        return [
            draft.object_id
            for place, draft in self._by_place.items()
            if place.mount == mount and place.directory == directory
        ]

    def place_of(self, object_id: int) -> Place | None:
        """Returns where a draft is to be published; None if its name was removed, or it is no
        draft."""
        draft = self._drafts.get(object_id)
        return None if draft is None else draft.place

    def places(self) -> list[Place]:
        """Returns where all drafts are to be published."""
        return list(self._by_place)

    def move(self, object_id: int, place: Place) -> None:
        """Notes the new place of a draft that was renamed. Does nothing when it is unknown."""
        draft = self._drafts.get(object_id)
        if draft is not None:
            self._unplace(draft)
            draft.place = place
            self._by_place[place] = draft

    def move_tree(self, mount: int, old: bytes, new: bytes) -> None:
        """Notes that a directory was renamed (both paths relative to the mount), with the drafts at
        any depth in it."""
        for draft in list(self._drafts.values()):
            place = draft.place
            if place.mount == mount and (place.directory + b"/").startswith(old + b"/"):
                directory = new + place.directory[len(old) :]
                self.move(draft.object_id, Place(mount, directory, place.name))

    def add(self, draft: Draft) -> None:
        """Adds a new draft."""
        self._drafts[draft.object_id] = self._by_place[draft.place] = draft

    def remove(self, draft: Draft) -> list[int]:
        """Removes a draft that has ended; returns the processes that hold no other."""
        self._drafts.pop(draft.object_id, None)
        self._unplace(draft)
        return [pid for pid in list(draft.holders) if self.remove_holder(draft, pid)]

    def holder(self, draft: Draft, pid: int) -> Holder:
        """Returns what is known of a process that holds a draft, and makes it a holder if it is
        none. A dead holder with this id was another process, and is replaced."""
        self._by_pid.setdefault(pid, set()).add(draft.object_id)
        if pid not in draft.holders or draft.holders[pid].dead:
            draft.holders[pid] = Holder()
        return draft.holders[pid]

    def remove_holder(self, draft: Draft, pid: int) -> bool:
        """Ends a process's hold on a draft; tells whether it holds no other."""
        draft.holders.pop(pid, None)
        others = self._by_pid.get(pid, set())
        others.discard(draft.object_id)
        if not others:
            self._by_pid.pop(pid, None)
        return not others

    def known(self, objects: Iterable[int]) -> list[Draft]:
        """Returns the drafts among these objects."""
        return [self._drafts[number] for number in objects if number in self._drafts]

    def of_process(self, pid: int) -> list[Draft]:
        """Returns the drafts that a process holds."""
        return self.known(self._by_pid.get(pid, ()))

    def all(self) -> list[Draft]:
        """Returns all drafts."""
        return list(self._drafts.values())

    def _unplace(self, draft: Draft) -> None:
        if self._by_place.get(draft.place) is draft:
            del self._by_place[draft.place]
