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
    the version before; ending: publishes or drops it; waits_since_s: since when a holder has been
    about to end."""

    object_id: int
    place: Place
    original: Attr | None = None
    holders: dict[int, Holder] = field(default_factory=dict)
    ending: asyncio.Task[None] | None = None
    waits_since_s: float | None = None


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
        held = [(draft.place, draft.object_id) for draft in self.known(self._by_pid.get(pid, ()))]
        return [
            (place.name, number)
            for place, number in held
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

    def known(self, objects: Iterable[int]) -> list[Draft]:
        """Returns the drafts among these objects."""
        return [self._drafts[number] for number in objects if number in self._drafts]

    def _put(self, draft: Draft, place: Place) -> None:
        """Notes where a draft is to be published now."""
        self._unplace(draft)
        draft.place = place
        self._by_place[place] = draft

    def _unplace(self, draft: Draft) -> None:
        if self._by_place.get(draft.place) is draft:
            del self._by_place[draft.place]
