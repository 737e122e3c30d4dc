"""The drafts of this rank, found by object and by place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from fanstore.outputs.drafts.holders import Holder
from fanstore.outputs.model.entries import Place

Ending = asyncio.Task["OSError | None"]  # ends a draft; with what went wrong


@dataclass
class Draft:
    """One object being written, to be published at `place`. holders: by their process ids; ending:
    publishes or drops it; waits_since_s: since when a holder has been about to end."""

    object_id: int
    place: Place
    holders: dict[int, Holder] = field(default_factory=dict)
    ending: Ending | None = None
    waits_since_s: float | None = None


class DraftTable:
    """The drafts of this rank. Objects that are no drafts are unknown here."""

    def __init__(self) -> None:
        self._drafts: dict[int, Draft] = {}
        self._by_place: dict[Place, Draft] = {}

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

    def within(self, mount: int, directory: bytes) -> list[Draft]:
        """Returns the drafts that are to be published in a directory."""
        return [
            draft
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
        self._remove(draft)
        draft.place = place
        self._drafts[draft.object_id] = self._by_place[place] = draft

    def _remove(self, draft: Draft) -> None:
        self._drafts.pop(draft.object_id, None)
        if self._by_place.get(draft.place) is draft:
            del self._by_place[draft.place]
