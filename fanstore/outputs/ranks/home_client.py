"""Asks the home rank of a name, this one or another, for the steps of its name tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fanstore.outputs.model.entries import Attr, Changes, Entry, Listing, Place, Slot, home_rank_of
from fanstore.outputs.model.name_tables import Removed, Reservation
from fanstore.peers.interface import Peers


@dataclass(frozen=True)
class Found:
    """known: whether the directory is there, by that very path; entry: what everybody sees."""

    known: bool
    entry: Entry | None = None


class HomeClient:
    """The steps of NameTables, each done by the home rank of the name. All raise OSError; EIO when
    that rank is lost. Steps that change something wait while the name or its directory is moved."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def rank(self, mount: int, directory: bytes) -> int:
        """The home of the names in a directory."""
        return home_rank_of(mount, directory, self._peers.world_size)

    async def _ask(self, step: str, place: Place, *rest: Any) -> Any:
        rank = self.rank(place.mount, place.directory)
        return await self._peers.call(rank, f"home.{step}", place, *rest)

    async def get(self, place: Place) -> Found:
        """What everybody sees under a name."""
        found: Found = await self._ask("get", place)
        return found

    async def slot(self, place: Place) -> Slot:
        """All that its home knows of it."""
        found: Slot = await self._ask("slot", place)
        return found

    async def reserve(
        self, place: Place, object_id: int, create: bool, exclusive: bool
    ) -> Reservation:
        """An object is to be written under a name."""
        result: Reservation = await self._ask("reserve", place, object_id, create, exclusive)
        return result

    async def release(self, place: Place, object_id: int) -> None:
        """It is not."""
        await self._ask("release", place, object_id)

    async def publish(self, place: Place, entry: Entry) -> Removed | None:
        """It was, to the end."""
        result: Removed | None = await self._ask("publish", place, entry)
        return result

    async def insert(self, place: Place, entry: Entry) -> None:
        """A new name."""
        await self._ask("insert", place, entry)

    async def remove(self, place: Place, object_id: int, token: int = 0) -> Removed | None:
        """A name goes. token: of its lock, if it has one."""
        result: Removed | None = await self._ask("remove", place, object_id, token)
        return result

    async def put(
        self, place: Place, slot: Slot, before: int | None, replace: bool, token: int = 0
    ) -> Removed | None:
        """What was renamed comes."""
        result: Removed | None = await self._ask("put", place, slot, before, replace, token)
        return result

    async def move(
        self, old: Place, new: Place, moved: int, before: int | None, replace: bool
    ) -> tuple[Slot, Removed] | None:
        """Renames, where both names have one home."""
        result: tuple[Slot, Removed] | None = await self._ask(
            "move", old, new, moved, before, replace
        )
        return result

    async def set_slot(self, place: Place, slot: Slot) -> None:
        """Whatever is there is replaced; while all is frozen."""
        await self._ask("set_slot", place, slot)

    async def set_attr(self, place: Place, object_id: int, attr: Attr) -> Entry | None:
        """New attributes, if that object is there."""
        result: Entry | None = await self._ask("set_attr", place, object_id, attr)
        return result

    async def change(self, place: Place, object_id: int, changes: Changes) -> Entry | None:
        """Changes of them."""
        result: Entry | None = await self._ask("change", place, object_id, changes)
        return result

    async def lock(self, place: Place, token: int) -> Slot:
        """Nobody else can change a name from now on, until unlock; what it holds."""
        result: Slot = await self._ask("lock", place, token)
        return result

    async def unlock(self, place: Place, token: int) -> None:
        """Now they can."""
        await self._ask("unlock", place, token)

    async def _ask_table(self, step: str, mount: int, directory: bytes, *rest: Any) -> Any:
        rank = self.rank(mount, directory)
        return await self._peers.call(rank, f"home.{step}", mount, directory, *rest)

    async def list(self, mount: int, directory: bytes) -> Listing:
        """What is published in a directory."""
        result: Listing = await self._ask_table("list", mount, directory)
        return result

    async def is_empty(self, mount: int, directory: bytes) -> bool:
        """Whether it has no names."""
        result: bool = await self._ask_table("is_empty", mount, directory)
        return result

    async def changed_ns(self, mount: int, directory: bytes) -> int:
        """When its names changed; 0: not since the time that its entry has."""
        result: int = await self._ask_table("changed_ns", mount, directory)
        return result

    async def set_time(self, mount: int, directory: bytes) -> None:
        """It was given a time."""
        await self._ask_table("set_time", mount, directory)

    async def close(self, mount: int, directory: bytes) -> None:
        """A directory is about to be removed: it is empty, and stays so. ENOTEMPTY."""
        await self._ask_table("close", mount, directory)

    async def end_close(self, mount: int, directory: bytes, gone: bool) -> None:
        """It was removed, or not."""
        await self._ask_table("end_close", mount, directory, gone)
