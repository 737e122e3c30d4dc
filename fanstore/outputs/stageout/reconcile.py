"""Makes names in the output directory what they are in the job: the home rank's part of
stage-out."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from fanstore._native import ffi
from fanstore.outputs.model.entries import Attr, Entry, Place, home_rank_of
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.stageout.journal import Identity, name_of
from fanstore.outputs.stageout.placing import OutputDirectory, ParentInTheWay
from fanstore.peers.interface import Peers

_CHANGES_FOLLOWED = 8

T = TypeVar("T")


@dataclass(frozen=True)
class Reconciled:
    """What an attempt to place a name led to. error, reason: why it failed, 0 if it did not. lost:
    the bytes are gone, with their rank. clear: it is a directory, and what this job placed in it
    has to go first. descend: it is a new directory, and may have come with names in it. review: it
    took another's place, whose names may have to go. parents: one of its parents has to become a
    directory first."""

    error: int = 0
    reason: str = ""
    lost: bool = False
    clear: bool = False
    descend: bool = False
    review: bool = False
    parents: bool = False


@dataclass(frozen=True)
class Held:
    """What this rank placed under a name. identity: that of a file or link. made: this job made the
    directory."""

    entry: Entry
    identity: Identity | None = None
    made: bool = False


class Reconciler:
    """Keeps the output directory like the name tables of this rank."""

    def __init__(self, peers: Peers, name_tables: NameTables, directory: OutputDirectory) -> None:
        self._peers = peers
        self._name_tables = name_tables
        self._directory = directory
        self._thread = ThreadPoolExecutor(1, "stage-out-names")
        self._held: dict[Place, Held] = {}
        self._times: dict[Place, int] = {}
        self._locks: weakref.WeakValueDictionary[Place, asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )
        self.backups: list[str] = []
        peers.serve("reconcile", lambda _, place, force: self.reconcile(place, force))
        peers.serve("bring_new", lambda _, places: self.bring_new(places))
        peers.serve("placed_below", lambda _, mount, path: self.placed_below(mount, path))

    async def reconcile(self, place: Place, force: bool = False) -> Reconciled:
        """Makes a name what it is at this moment, and again if that changed meanwhile. force: a
        directory that could not be cleared stays, and what is in the way is put aside. Raises no
        OSError."""
        async with self._lock_of(place):
            done = Reconciled()
            for _ in range(_CHANGES_FOLLOWED):
                entry = self._name_tables.get(place)
                done = await self._attempt(place, entry, force)
                if self._name_tables.get(place) == entry:
                    break
            return done

    async def bring_new(self, places: Sequence[Place]) -> int:
        """Places files at names where this job placed nothing before, many at a time, in their
        order. Returns how many of the names need no more: the next one failed, or is something
        else, which is for `reconcile`."""
        found = list(self._new(places))
        files = [(place, entry) for place, entry in found if entry is not None]
        locks = [self._lock_of(place) for place, _ in files]
        for lock in locks:
            await lock.acquire()  # at once, as nobody has it: else two groups might wait mutually
        try:
            placed = await self._bring_files(files) if files else 0
        finally:
            for lock in locks:
                lock.release()
        return len(found) if placed == len(files) else found.index(files[placed])

    def _new(self, places: Sequence[Place]) -> Iterator[tuple[Place, Entry | None]]:
        """Yields the first names, with their entries, that are files of one owner, or nothing."""
        owner = None
        for place in places:
            entry, lock = self._name_tables.get(place), self._locks.get(place)
            if place in self._held or (lock is not None and lock.locked()):
                return
            if entry is not None:
                if not entry.is_file or owner not in (None, entry.owner):
                    return
                owner = entry.owner
            yield place, entry

    async def _bring_files(self, files: Sequence[tuple[Place, Entry]]) -> int:
        """Returns how many of them were placed."""
        owner = files[0][1].owner
        wanted = [(entry.object_id, name_of(place), entry.attr) for place, entry in files]
        placed: list[Identity] = []
        ended = ffi.new("int32_t *")
        with contextlib.suppress(OSError):
            copies = await self._peers.call(owner, "supply_together", wanted)
            named = [(copy, name) for copy, (_, name, _) in zip(copies, wanted, strict=False)]
            try:
                await self._run(self._directory.place_files, named, placed, ended)
            finally:  # it may have been given up
                ended[0] = 1
                done = list(zip(files, placed, strict=False))
                for (place, entry), identity in done:
                    self._held[place] = Held(entry, identity)
                told = [(entry.object_id, name_of(place), each) for (place, entry), each in done]
                if told:  # with an answer: at the end the owner is asked next what is placed
                    await self._peers.call(owner, "placed", told)
        return len(placed)

    async def bring_own(self, place: Place, object_id: int, attr: Attr) -> Reconciled:
        """Places an object of this rank whose home rank is lost."""
        return await self._attempt(place, Entry(object_id, attr), True)

    def placed_below(self, mount: int, path: bytes) -> list[Place]:
        """Returns what this rank placed anywhere below a directory."""
        inside = path + b"/"
        return [
            place
            for place in self._held
            if place.mount == mount and (place.directory + b"/").startswith(inside)
        ]

    def is_placed(self, place: Place, entry: Entry) -> bool:
        """Tells whether this rank placed that entry at that place."""
        held = self._held.get(place)
        return held is not None and held.entry.object_id == entry.object_id

    def path_of(self, object_id: int) -> bytes | None:
        """Returns where in the output directory this rank placed an object, if it is still
        there."""
        for place, held in self._held.items():
            if held.entry.object_id == object_id and held.identity is not None:
                path = self._directory.path(name_of(place))
                with contextlib.suppress(OSError):
                    if Identity.of(os.lstat(path)) == held.identity:
                        return path
        return None

    async def seal(self) -> None:
        """Gives directories their exact modes and times: nothing more is going to be placed in
        them."""
        for place, held in sorted(self._held.items(), key=lambda item: -len(item[0].path)):
            if held.made:
                attr = held.entry.attr
                mtime_ns = self._times.get(place) or attr.mtime_ns
                with contextlib.suppress(OSError):  # a time is not worth failing for
                    await self._run(self._directory.seal, name_of(place), attr.mode, mtime_ns)

    async def learn_times(self) -> None:
        """Asks the home ranks of directories when the names in them changed, as long as those ranks
        are there."""
        for place, held in list(self._held.items()):
            if held.made:
                home_rank = home_rank_of(place.mount, place.path, self._peers.world_size)
                with contextlib.suppress(OSError):
                    self._times[place] = await self._peers.call(
                        home_rank, "home.changed_ns", place.mount, place.path
                    )

    async def sync(self) -> None:
        """Makes all names that were given so far last. Raises OSError."""
        await self._run(self._directory.sync)

    def close(self) -> None:
        """Cancels what is queued; a call under way in the file system is not awaited."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _attempt(self, place: Place, entry: Entry | None, force: bool) -> Reconciled:
        try:
            return await self._bring(place, entry, force)
        except ParentInTheWay:
            return Reconciled(parents=True)
        except OSError as error:
            lost = entry is not None and self._peers.is_lost(entry.owner)
            return Reconciled(error.errno or errno.EIO, error.strerror or str(error), lost)

    async def _bring(self, place: Place, entry: Entry | None, force: bool) -> Reconciled:
        held = self._held.get(place)
        if held is None and entry is None:
            return Reconciled()
        if held is not None and entry is not None and held.entry == entry:
            await self._confirm(place, held)
            return Reconciled()
        if held is not None and entry is not None and held.entry.object_id == entry.object_id:
            return await self._update(place, held, entry)
        if held is not None and not self._is_succession(held.entry, entry):
            cleared = await self._clear(place, held, force)
            if cleared.clear or entry is None:
                return cleared
            held = None
        assert entry is not None
        if entry.is_directory:
            return await self._bring_directory(place, entry, held, force)
        await (self._bring_link if entry.is_link else self._bring_file)(place, entry, held, force)
        return Reconciled()

    def _lock_of(self, place: Place) -> asyncio.Lock:
        return self._locks.setdefault(place, asyncio.Lock())

    @staticmethod
    def _is_succession(old: Entry, new: Entry | None) -> bool:
        """Tells whether one entry can take the other's place in a single step."""
        return new is not None and old.is_directory == new.is_directory

    async def _bring_file(self, place: Place, entry: Entry, held: Held | None, force: bool) -> None:
        name, object_id = name_of(place), entry.object_id
        temporary = await self._peers.call(entry.owner, "supply", object_id, name, entry.attr)
        identity = await self._put(
            place, entry, self._directory.place_file, temporary, name, _mine(held), force
        )
        try:
            await self._peers.call(entry.owner, "placed", [(object_id, name, identity)])
        except OSError:
            if not self._peers.is_lost(entry.owner):
                raise

    async def _bring_link(self, place: Place, entry: Entry, held: Held | None, force: bool) -> None:
        put, name, mine = self._directory.place_link, name_of(place), _mine(held)
        await self._put(place, entry, put, entry.target, name, entry.object_id, mine, force)

    async def _put(
        self,
        place: Place,
        entry: Entry,
        put: Callable[..., tuple[Identity, bytes | None]],
        *args: Any,
    ) -> Identity:
        identity, backup = await self._run(put, *args)
        self._held[place] = Held(entry, identity)
        self._note_backup(backup)
        return identity

    async def _bring_directory(
        self, place: Place, entry: Entry, held: Held | None, force: bool
    ) -> Reconciled:
        put, name = self._directory.place_directory, name_of(place)
        made, backup = await self._run(put, name, entry.attr.mode, _mine(held), force)
        self._held[place] = Held(entry, None, made or (held is not None and held.made))
        self._note_backup(backup)
        return Reconciled(descend=True, review=held is not None)

    async def _update(self, place: Place, held: Held, entry: Entry) -> Reconciled:
        """Gives what was placed new attributes; what somebody removed or replaced is left alone."""
        identity, name = held.identity, name_of(place)
        if entry.is_directory and held.made:
            await self._run(self._directory.set_mode, name, entry.attr.mode)
        elif entry.is_file and identity is not None:
            change = self._directory.change_file
            identity = await self._run(change, name, entry.attr, identity) or identity
            await self._peers.call(entry.owner, "placed", [(entry.object_id, name, identity)])
        self._held[place] = Held(entry, identity, held.made)
        return Reconciled()

    async def _confirm(self, place: Place, held: Held) -> None:
        """Tells the owner that a file is placed: it was placed elsewhere meanwhile, and renamed
        back, perhaps."""
        if held.entry.is_file and held.identity is not None:
            placed = [(held.entry.object_id, name_of(place), held.identity)]
            await self._peers.call(held.entry.owner, "placed", placed)

    async def _clear(self, place: Place, held: Held, force: bool) -> Reconciled:
        name = name_of(place)
        if held.identity is not None:
            await self._run(self._directory.remove_file, name, held.identity)
        else:
            gone = held.made and await self._run(self._directory.remove_directory, name)
            if not gone and not force:
                return Reconciled(clear=True)
        self._held.pop(place, None)
        return Reconciled()

    def _note_backup(self, backup: bytes | None) -> None:
        if backup is not None:
            self.backups.append(self._directory.relative(backup))

    async def _run(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)


def _mine(held: Held | None) -> Identity | None:
    return None if held is None else held.identity
