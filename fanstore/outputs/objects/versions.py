"""Which file an object that is being written is a version of: it keeps that one's st_ino."""

from __future__ import annotations

from fanstore.outputs.model.entries import Attr, Entry
from fanstore.outputs.objects.objects import ObjectStore


class Versions:
    """Keeps the first version of each object of this rank that is being written."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._first: dict[int, int] = {}

    def follow(self, object_id: int, replaced: Entry) -> None:
        """Notes that an object is going to be the next version of a file."""
        self._first[object_id] = replaced.first or replaced.object_id

    def forget(self, object_id: int) -> None:
        """Forgets an object that is published, or never will be."""
        self._first.pop(object_id, None)

    def entry(self, object_id: int, attr: Attr | None = None) -> Entry:
        """Returns an object as an entry, with the attributes that it has by now, unless given.
        Raises OSError."""
        found = self._store.attr(object_id) if attr is None else attr
        return Entry(object_id, found, first=self._first.get(object_id, 0))
