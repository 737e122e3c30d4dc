"""Asks the home rank of a name, this one or another, for the steps of its name tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fanstore.outputs.model.entries import Attr, Changes, Entry, Listing, Place, Slot, home_rank_of
from fanstore.outputs.model.name_tables import Removed, Reservation
from fanstore.peers.interface import Peers


@dataclass(frozen=True)
class Found:
    """The answer to `get`. known: whether the directory exists, by that very path; entry: what is
    published under the name."""

    known: bool
    entry: Entry | None = None


class HomeClient:
    """The steps of NameTables, each done by the home rank of the name. All raise OSError; EIO when
    that rank is lost. Steps that change something wait while the name or its directory is moved."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def rank(self, mount: int, directory: bytes) -> int:
        """Returns the home rank of a directory: the one that keeps the names in it."""
        return home_rank_of(mount, directory, self._peers.world_size)

    def is_here(self, place: Place) -> bool:
        """Tells whether this rank itself keeps a name."""
        return self.rank(place.mount, place.directory) == self._peers.rank

    async def _ask(self, step: str, place: Place, *rest: Any) -> Any:
        rank = self.rank(place.mount, place.directory)
        return await self._peers.call(rank, f"home.{step}", place, *rest)

    async def get(self, place: Place) -> Found:
        """Returns what is published under a name."""
        found: Found = await self._ask("get", place)
        return found

    async def slot(self, place: Place) -> Slot:
        """Returns all that the home rank keeps for a name."""
        found: Slot = await self._ask("slot", place)
        return found

    async def reserve(
        self, place: Place, object_id: int, create: bool, exclusive: bool
    ) -> Reservation:
        """Reserves a name for an object that is to be written."""
        result: Reservation = await self._ask("reserve", place, object_id, create, exclusive)
        return result

    async def release(self, place: Place, object_id: int) -> None:
        """Gives a reservation back: the object will not be written."""
        await self._ask("release", place, object_id)

    async def publish(self, place: Place, entry: Entry) -> Removed | None:
        """Puts an object under the name that was reserved for it; returns what it replaced, None
        where the name is not its own any more."""
        result: Removed | None = await self._ask("publish", place, entry)
        return result

    async def insert(self, place: Place, entry: Entry) -> None:
        """Adds a name that was free. Raises EEXIST."""
        await self._ask("insert", place, entry)

    async def remove(self, place: Place, object_id: int | None, token: int = 0) -> Removed | None:
        """Removes a name; see NameTables.remove. token: that of the caller's lock."""
        result: Removed | None = await self._ask("remove", place, object_id, token)
        return result

    async def put(
        self, place: Place, slot: Slot, before: int | None, replace: bool, token: int = 0
    ) -> Removed | None:
        """Gives what was renamed its new name; see NameTables.put. token: that of the caller's
        lock."""
        result: Removed | None = await self._ask("put", place, slot, before, replace, token)
        return result

    async def move(
        self, old: Place, new: Place, moved: int | None, before: int | None, replace: bool
    ) -> tuple[Slot, Removed] | None:
        """Renames where both names have the same home rank; see NameTables.move."""
        result: tuple[Slot, Removed] | None = await self._ask(
            "move", old, new, moved, before, replace
        )
        return result

    async def set_slot(self, place: Place, slot: Slot) -> None:
        """Has a name stand for `slot`, whatever was there; only while all gates are closed."""
        await self._ask("set_slot", place, slot)

    async def set_attr(self, place: Place, object_id: int, attr: Attr) -> Entry | None:
        """Replaces all attributes, if the name is that object's; returns the entry after that."""
        result: Entry | None = await self._ask("set_attr", place, object_id, attr)
        return result

    async def change(self, place: Place, object_id: int, changes: Changes) -> Entry | None:
        """Changes some attributes, if the name is that object's; returns the entry after that."""
        result: Entry | None = await self._ask("change", place, object_id, changes)
        return result

    async def lock(self, place: Place, token: int) -> Slot:
        """Keeps all others from changing a name until `unlock`; returns what it stands for."""
        result: Slot = await self._ask("lock", place, token)
        return result

    async def unlock(self, place: Place, token: int) -> None:
        """Lets others change a name again."""
        await self._ask("unlock", place, token)

    async def _ask_table(self, step: str, mount: int, directory: bytes, *rest: Any) -> Any:
        rank = self.rank(mount, directory)
        return await self._peers.call(rank, f"home.{step}", mount, directory, *rest)

    async def list(self, mount: int, directory: bytes) -> Listing:
        """Returns all that is published in a directory."""
        result: Listing = await self._ask_table("list", mount, directory)
        return result

    async def is_empty(self, mount: int, directory: bytes) -> bool:
        """Tells whether a directory has no names, those of drafts included."""
        result: bool = await self._ask_table("is_empty", mount, directory)
        return result

    async def changed_ns(self, mount: int, directory: bytes) -> int:
        """Returns when the names in a directory changed; 0 where its entry has a later time."""
        result: int = await self._ask_table("changed_ns", mount, directory)
        return result

    async def set_time(self, mount: int, directory: bytes) -> None:
        """Notes that a directory was given a time: changed_ns is 0 again."""
        await self._ask_table("set_time", mount, directory)

    async def close(self, mount: int, directory: bytes) -> None:
        """Keeps names from coming into an empty directory that is about to be removed, until
        end_close. Raises ENOTEMPTY."""
        await self._ask_table("close", mount, directory)

    async def end_close(self, mount: int, directory: bytes, gone: bool) -> None:
        """Ends `close`. gone: whether the directory was removed."""
        await self._ask_table("end_close", mount, directory, gone)
