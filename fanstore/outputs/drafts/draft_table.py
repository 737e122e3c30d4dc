"""Which drafts there are: by object, by place, by process."""

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
    waits_since_s: since when a holder has been about to end."""

    object_id: int
    place: Place
    original: Attr | None = None
    holders: dict[int, Holder] = field(default_factory=dict)
    ending: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    waits_since_s: float | None = None


class DraftTable:
    """The drafts of this rank."""

    def __init__(self) -> None:
        self._drafts: dict[int, Draft] = {}
        self._by_place: dict[Place, Draft] = {}
        self._by_pid: dict[int, set[int]] = {}

    def __len__(self) -> int:
        return len(self._drafts)

    def at(self, place: Place) -> int | None:
        """The draft of this rank that is to be published there."""
        draft = self._by_place.get(place)
        return None if draft is None else draft.object_id

    def find(self, place: Place, pid: int) -> int | None:
        """The same, if that process holds it."""
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
        """The drafts of this rank in a directory."""
        return [
            draft.object_id
            for place, draft in self._by_place.items()
            if place.mount == mount and place.directory == directory
        ]

    def place_of(self, object_id: int) -> Place | None:
        """Where a draft is to be published; None: nowhere (its name was removed), or unknown."""
        draft = self._drafts.get(object_id)
        return None if draft is None else draft.place

    def places(self) -> list[Place]:
        """Where all of them are to be published."""
        return list(self._by_place)

    def move(self, object_id: int, place: Place) -> None:
        """A draft was renamed. Nothing happens when it is unknown."""
        draft = self._drafts.get(object_id)
        if draft is not None:
            self._unplace(draft)
            draft.place = place
            self._by_place[place] = draft

    def move_tree(self, mount: int, old: bytes, new: bytes) -> None:
        """A directory was renamed (both relative to the mount): so are the drafts at any depth."""
        for draft in list(self._drafts.values()):
            place = draft.place
            if place.mount == mount and (place.directory + b"/").startswith(old + b"/"):
                directory = new + place.directory[len(old) :]
                self.move(draft.object_id, Place(mount, directory, place.name))

    def add(self, draft: Draft) -> None:
        """A new one."""
        self._drafts[draft.object_id] = self._by_place[draft.place] = draft

    def remove(self, draft: Draft) -> list[int]:
        """One that has ended. The processes that have no other."""
        self._drafts.pop(draft.object_id, None)
        self._unplace(draft)
        return [pid for pid in list(draft.holders) if self.remove_holder(draft, pid)]

    def holder(self, draft: Draft, pid: int) -> Holder:
        """A process as its holder, made one if it is none. A dead one had the same number."""
        self._by_pid.setdefault(pid, set()).add(draft.object_id)
        if pid not in draft.holders or draft.holders[pid].dead:
            draft.holders[pid] = Holder()
        return draft.holders[pid]

    def remove_holder(self, draft: Draft, pid: int) -> bool:
        """A process is none any more. Whether it holds no other draft."""
        draft.holders.pop(pid, None)
        others = self._by_pid.get(pid, set())
        others.discard(draft.object_id)
        if not others:
            self._by_pid.pop(pid, None)
        return not others

    def known(self, objects: Iterable[int]) -> list[Draft]:
        """Those of these objects that are drafts."""
        return [self._drafts[number] for number in objects if number in self._drafts]

    def of_process(self, pid: int) -> list[Draft]:
        """Those that a process holds."""
        return self.known(self._by_pid.get(pid, ()))

    def all(self) -> list[Draft]:
        """All of them."""
        return list(self._drafts.values())

    def _unplace(self, draft: Draft) -> None:
        if self._by_place.get(draft.place) is draft:
            del self._by_place[draft.place]
