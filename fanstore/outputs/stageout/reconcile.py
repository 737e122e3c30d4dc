"""Makes names in the output directory what they are in the job: the home rank's part of
stage-out."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from fanstore._native import ffi
from fanstore.outputs.model.entries import Attr, Entry, Place, home_rank_of
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.stageout.journal import Identity
from fanstore.outputs.stageout.placing import OutputDirectory, ParentInTheWay
from fanstore.peers.interface import Peers

_CHANGES_FOLLOWED = 8
# What is wrong with one name, not with the output directory: nothing waits for it to pass.
_PARTICULAR = frozenset(
    {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.ELOOP, errno.EFBIG, errno.ECANCELED}
)

T = TypeVar("T")


@dataclass(frozen=True)
class Reconciled:
    """What an attempt to place a name led to. error, reason: why it failed, 0 if it did not. final:
    it is no use to try again. clear: it is a directory, and what this job placed in it
    has to go first. descend: it is a new directory, and may have come with names in it. review: it
    took another's place, whose names may have to go. parents: one of its parents has to become a
    directory first."""

    error: int = 0
    reason: str = ""
    final: bool = False
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

    def is_of(self, entry: Entry) -> bool:
        """Tells whether that was this entry, with whatever attributes."""
        return self.entry.object_id == entry.object_id


class Reconciler:
    """Keeps the output directory like the name tables of this rank."""

    def __init__(self, peers: Peers, name_tables: NameTables, directory: OutputDirectory) -> None:
        self._peers = peers
        self._name_tables = name_tables
        self._directory = directory
        self._thread = ThreadPoolExecutor(1, "stage-out-names")
        self._held: dict[Place, Held] = {}
        self._times: dict[Place, int] = {}
        self._under_way: dict[Place, asyncio.Event] = {}
        peers.serve("reconcile", lambda _, places, force: self.reconcile(places, force))
        peers.serve("placed_below", lambda _, mount, path: self.placed_below(mount, path))

    async def reconcile(self, places: Sequence[Place], force: bool = False) -> list[Reconciled]:
        """Makes the first of these names what they are at this moment: files of one owner together
        and in their order, anything else by itself, and again if it changed meanwhile. Returns what
        that led to, for one name at least. force: a directory that could not be cleared stays, and
        what is in the way is put aside. Raises no OSError."""
        while (end := self._under_way.get(places[0])) is not None:
            await end.wait()
        together = list(self._plain(places))
        taken = [place for place, _ in together] or places[:1]
        end = asyncio.Event()
        self._under_way.update(dict.fromkeys(taken, end))
        try:
            count = await self._bring_together(together) if len(together) > 1 else 0
            if count > 0:
                return [Reconciled()] * count
            return [await self._follow(places[0], force)]
        finally:
            for place in taken:
                del self._under_way[place]
            end.set()

    def _plain(self, places: Sequence[Place]) -> Iterator[tuple[Place, Entry | None]]:
        """Yields the first names, with their entries, that need nothing, or are files of one owner
        of which nothing is placed there, or an older version."""
        owner = None
        for place in places:
            entry, held = self._name_tables.get(place), self._held.get(place)
            if place in self._under_way or (entry is None and held is not None):
                return
            if entry is not None:
                if not entry.is_file or (owner is not None and entry.owner != owner):
                    return
                if held is not None and (held.identity is None or held.is_of(entry)):
                    return
                owner = entry.owner
            yield place, entry

    async def _bring_together(self, found: Sequence[tuple[Place, Entry | None]]) -> int:
        """Returns how many of the names need no more: the next one failed."""
        files = [(place, entry) for place, entry in found if entry is not None]
        count = 0
        if files:
            with contextlib.suppress(Exception):  # by itself it comes to light why
                count = await self._bring_files(files, False)
        return len(found) if count == len(files) else found.index(files[count])

    async def _follow(self, place: Place, force: bool) -> Reconciled:
        done = Reconciled()
        for _ in range(_CHANGES_FOLLOWED):
            entry = self._name_tables.get(place)
            done = await self._attempt(place, entry, force)
            if self._name_tables.get(place) == entry:
                break
        return done

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

    def has_placed(self) -> bool:
        """Tells whether anything is there that this rank placed."""
        return bool(self._held)

    def is_placed(self, place: Place, entry: Entry) -> bool:
        """Tells whether this rank placed that entry at that place."""
        held = self._held.get(place)
        return held is not None and held.is_of(entry)

    def path_of(self, object_id: int) -> bytes | None:
        """Returns where in the output directory this rank placed an object, if it is still
        there."""
        for place, held in self._held.items():
            if held.entry.object_id == object_id and held.identity is not None:
                path = self._directory.path(place)
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
                    await self._run(self._directory.set_mode, place, attr.mode, mtime_ns)

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
            final = lost or error.errno in _PARTICULAR
            return Reconciled(error.errno or errno.EIO, error.strerror or str(error), final)

    async def _bring(self, place: Place, entry: Entry | None, force: bool) -> Reconciled:
        held = self._held.get(place)
        if held is not None and entry is not None and held.is_of(entry):
            return await self._update(place, held, entry)
        if held is not None and (entry is None or held.entry.is_directory != entry.is_directory):
            cleared = await self._clear(place, held, force)
            if cleared.clear or entry is None:
                return cleared
            held = None
        if entry is None:
            return Reconciled()
        if entry.is_directory:
            return await self._bring_directory(place, entry, held, force)
        if entry.is_file:
            await self._bring_files([(place, entry)], force)
        else:
            link = await self._run(self._directory.make_link, entry.target, entry.object_id)
            await self._name([(place, entry)], [link], force)
        return Reconciled()

    async def _bring_files(self, files: Sequence[tuple[Place, Entry]], force: bool) -> int:
        """Places files of one owner in their order, until one fails; returns how many it placed.
        Raises the OSError of the first."""
        owner = files[0][1].owner
        wanted = [(entry.object_id, place, entry.attr) for place, entry in files]
        copies = await self._peers.call(owner, "supply", wanted)
        return await self._name(files, copies, force)

    async def _name(
        self, found: Sequence[tuple[Place, Entry]], copies: Sequence[bytes], force: bool
    ) -> int:
        """Gives copies the names of the first of these places, and tells their owner where they
        are; does and raises as `_bring_files`."""
        turns = list(zip(copies, found, strict=False))
        named = [(copy, place, self._mine(place)) for copy, (place, _) in turns]
        placed: list[Identity] = []
        ended = ffi.new("int32_t *")
        try:
            await self._run(self._directory.place_files, named, placed, ended, force)
        except OSError:
            if not placed:
                raise
        finally:  # it may have been given up
            ended[0] = 1
            told = []
            for (_, (place, entry)), identity in zip(turns, placed, strict=False):
                self._held[place] = Held(entry, identity)
                told.append((entry.object_id, place, identity))
            await self._tell(found[0][1], told)
        return len(placed)

    async def _tell(self, entry: Entry, placed: list[tuple[int, Place, Identity]]) -> None:
        """Tells the owner what is placed of its files. It waits for the answer: at the end the
        owner is asked next what is not."""
        if placed and entry.is_file:
            with contextlib.suppress(OSError):  # it is lost
                await self._peers.call(entry.owner, "placed", placed)

    async def _bring_directory(
        self, place: Place, entry: Entry, held: Held | None, force: bool
    ) -> Reconciled:
        put, mode = self._directory.place_directory, entry.attr.mode
        made = await self._run(put, place, mode, self._mine(place), force)
        self._held[place] = Held(entry, None, made or (held is not None and held.made))
        return Reconciled(descend=True, review=held is not None)

    async def _update(self, place: Place, held: Held, entry: Entry) -> Reconciled:
        """Gives what was placed new attributes; what somebody removed or replaced is left alone.
        Tells the owner that it is there: it was renamed, and then back again, perhaps."""
        identity = held.identity
        if entry != held.entry:
            if entry.is_directory and held.made:
                await self._run(self._directory.set_mode, place, entry.attr.mode)
            elif entry.is_file and identity is not None:
                change = self._directory.change_file
                identity = await self._run(change, place, entry.attr, identity) or identity
            self._held[place] = Held(entry, identity, held.made)
        if identity is not None:
            await self._tell(entry, [(entry.object_id, place, identity)])
        return Reconciled()

    async def _clear(self, place: Place, held: Held, force: bool) -> Reconciled:
        if held.identity is not None:
            await self._run(self._directory.remove_file, place, held.identity)
        else:
            gone = held.made and await self._run(self._directory.remove_directory, place)
            if not gone and not force:
                return Reconciled(clear=True)
        self._held.pop(place, None)
        return Reconciled()

    def _mine(self, place: Place) -> Identity | None:
        held = self._held.get(place)
        return None if held is None else held.identity

    async def _run(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)
