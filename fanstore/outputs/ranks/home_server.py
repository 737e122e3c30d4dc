"""The name tables of this rank as all ranks ask them: the same steps, once they are possible.

A change in a directory waits until it is certain that the directory is there (its own name is kept
by the home of its parent, which is asked once), until all ranks know that names can be there that
are not in the index, and while the name or the directory is about to be moved or removed."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fanstore.outputs.model.entries import Listing, Place, Slot, failure, home_rank_of, split
from fanstore.outputs.model.interfaces import Inputs
from fanstore.outputs.model.name_tables import Key, NameTables
from fanstore.outputs.ranks.home_client import Found
from fanstore.peers.interface import Peers

WAIT_S = 10.0
_TRIES = 1000

# Steps of NameTables that change one name: their arguments start with its place.
_CHANGES = ("reserve", "release", "publish", "insert", "change", "set_attr")
# Steps that need no wait: they change nothing, or are taken while all else is frozen.
_AT_ONCE = (
    "slot", "set_slot", "is_empty", "changed_ns", "set_time", "tables", "put_tables", "drop_tables",
)  # fmt: skip


@dataclass
class _Hold:
    """A name or directory that a rank is moving or removing: others wait until that is over."""

    rank: int
    token: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)


class HomeServer:
    """Serves the name tables of this rank to all ranks, itself included."""

    def __init__(self, name_tables: NameTables, peers: Peers, inputs: Sequence[Inputs]) -> None:
        self.name_tables = name_tables
        self._peers = peers
        self._inputs = inputs
        self._locks: dict[Place, _Hold] = {}
        self._closing: dict[Key, _Hold] = {}
        self._turn = 0  # counts what may make a directory's being there uncertain
        self._announced: set[tuple[int, int]] = set()
        self._announcing: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._serve()
        peers.on_lost(self._lost)

    def _serve(self) -> None:
        for name in _CHANGES:
            self._peers.serve(f"home.{name}", self._changing(getattr(self.name_tables, name)))
        for name in _AT_ONCE:
            self._peers.serve(f"home.{name}", self._at_once(getattr(self.name_tables, name)))
        own = (
            self.get, self.list, self.put, self.remove, self.move, self.lock, self.unlock,
            self.close, self.end_close, self.entry,
        )  # fmt: skip
        for function in own:
            self._peers.serve(f"home.{function.__name__}", function)
        self._peers.serve("touch", self._touch)

    @staticmethod
    def _at_once(step: Callable[..., Any]) -> Callable[..., Any]:
        return lambda _rank, *args: step(*args)

    def _changing(self, step: Callable[..., Any]) -> Callable[..., Any]:
        async def wait(rank: int, place: Place, *rest: Any) -> Any:
            await self._until_ready(place)
            self._refuse_lost(rank)
            return step(place, *rest)

        def run(rank: int, place: Place, *rest: Any) -> Any:
            return step(place, *rest) if self._is_ready(place) else wait(rank, place, *rest)

        return run

    # What other ranks ask; the first argument is theirs.

    def get(self, _rank: int, place: Place) -> Found | Awaitable[Found]:
        """Answers HomeClient.get, after asking whether the directory exists if that is not
        known."""
        if self._is_known(place.mount, place.directory):
            return Found(True, self.name_tables.get(place))
        return self._get_verified(place)

    async def _get_verified(self, place: Place) -> Found:
        await self._verify(place.mount, place.directory)
        known = self._is_known(place.mount, place.directory)
        return Found(known, self.name_tables.get(place) if known else None)

    def entry(self, _rank: int, place: Place) -> Any:
        """Returns what is published there, whether or not the directory is known to exist."""
        return self.name_tables.get(place)

    async def list(self, _rank: int, mount: int, directory: bytes) -> Listing:
        """Answers HomeClient.list."""
        return self.name_tables.list(mount, directory)

    async def put(
        self, _rank: int, place: Place, slot: Slot, before: int | None, replace: bool, token: int
    ) -> Any:
        """Answers HomeClient.put."""
        await self._until_ready(place, token)
        return self.name_tables.put(place, slot, before, replace)

    def remove(self, _rank: int, place: Place, object_id: int | None, token: int) -> Any:
        """Answers HomeClient.remove."""
        if self._is_ready(place, token):
            return self.name_tables.remove(place, object_id)
        return self._remove_later(place, object_id, token)

    async def _remove_later(self, place: Place, object_id: int | None, token: int) -> Any:
        await self._until_ready(place, token)
        return self.name_tables.remove(place, object_id)

    def move(self, _rank: int, old: Place, new: Place, *rest: Any) -> Any:
        """Answers HomeClient.move, once both names may change."""
        if self._is_ready(old) and self._is_ready(new):
            return self.name_tables.move(old, new, *rest)
        return self._move_later(old, new, *rest)

    async def _move_later(self, old: Place, new: Place, *rest: Any) -> Any:
        for _ in range(_TRIES):
            await self._until_ready(old)
            await self._until_ready(new)
            if self._is_ready(old):
                return self.name_tables.move(old, new, *rest)
        raise failure(errno.EIO, old.path)

    async def lock(self, rank: int, place: Place, token: int) -> Slot:
        """Answers HomeClient.lock."""
        await self._until_ready(place)
        self._refuse_lost(rank)
        self._locks[place] = _Hold(rank, token)
        self.name_tables.close(place.mount, place.directory)
        return self.name_tables.slot(place)

    def unlock(self, _rank: int, place: Place, token: int) -> None:
        """Answers HomeClient.unlock; a lock with another token stays."""
        hold = self._locks.get(place)
        if hold is not None and hold.token == token:
            del self._locks[place]
            hold.over.set()

    async def close(self, rank: int, mount: int, directory: bytes) -> None:
        """Answers HomeClient.close, once nothing in the directory is being moved."""
        while hold := self._hold_in(mount, directory):
            await self._over(hold)
        self._refuse_lost(rank)
        if not self.name_tables.is_empty(mount, directory):
            raise failure(errno.ENOTEMPTY, directory)
        self._turn += 1
        self._closing[mount, directory] = _Hold(rank)
        self.name_tables.close(mount, directory)

    def end_close(self, rank: int, mount: int, directory: bytes, gone: bool) -> None:
        """Answers HomeClient.end_close; only the rank that closed the directory may call it."""
        hold = self._closing.get((mount, directory))
        if hold is None or hold.rank != rank:
            return
        del self._closing[mount, directory]
        self._turn += 1
        if gone:
            self.name_tables.forget(mount, directory)
        hold.over.set()

    def _touch(self, _rank: int, mount: int, record: int) -> None:
        self._inputs[mount].touch(record)

    def _refuse_lost(self, rank: int) -> None:
        """Raises EIO where the rank that asked is lost by now: what it began would never end."""
        if self._peers.is_lost(rank):
            raise failure(errno.EIO)

    def _lost(self, rank: int) -> None:
        """Ends what a lost rank was moving, so that it may change again, and what it was removing,
        which is looked at again. What it was writing is dropped."""
        self.name_tables.drop_drafts(rank)
        for place, hold in list(self._locks.items()):
            if hold.rank == rank:
                self.unlock(rank, place, hold.token)
        for (mount, directory), hold in list(self._closing.items()):
            if hold.rank == rank:
                self.end_close(rank, mount, directory, gone=True)

    # Waiting.

    def _is_known(self, mount: int, directory: bytes) -> bool:
        if self.name_tables.is_known(mount, directory):
            return True
        if self._inputs[mount].kind(directory) != "directory":
            return False
        self.name_tables.know(mount, directory)
        return True

    def _is_ready(self, place: Place, token: int = 0) -> bool:
        lock = self._locks.get(place)
        ready = (
            (lock is None or lock.token == token)
            and (place.mount, place.directory) not in self._closing
            and self._is_known(place.mount, place.directory)
            and self._record_to_announce(place) is None
        )
        if ready and self._hold_in(place.mount, place.directory) is None:
            self.name_tables.open(place.mount, place.directory)
        return ready

    def made(self, mount: int, directory: bytes) -> None:
        """Notes that a program has made a directory itself, and perhaps names in it."""
        if home_rank_of(mount, directory, self._peers.world_size) == self._peers.rank:
            self.name_tables.know(mount, directory)
            self.name_tables.open(mount, directory)

    def removed(self, mount: int, directory: bytes) -> None:
        """Notes that a program has removed a directory itself."""
        self.name_tables.forget(mount, directory)
        self._turn += 1

    async def _until_ready(self, place: Place, token: int = 0) -> None:
        """Waits until the name may change. Raises ENOENT when its directory does not exist, EIO
        when it takes too long."""
        for _ in range(_TRIES):
            if self._is_ready(place, token):
                return
            await self._one_wait(place, token)
        raise failure(errno.EIO, place.path)

    async def _one_wait(self, place: Place, token: int) -> None:
        lock = self._locks.get(place)
        closing = self._closing.get((place.mount, place.directory))
        if lock is not None and lock.token != token:
            await self._over(lock)
        elif closing is not None:
            await self._over(closing)
        elif not self._is_known(place.mount, place.directory):
            if not await self._verify(place.mount, place.directory):
                raise failure(errno.ENOENT, place.path)
        else:
            await self._announce(place)

    @staticmethod
    async def _over(hold: _Hold) -> None:
        try:
            await asyncio.wait_for(hold.over.wait(), WAIT_S)
        except asyncio.TimeoutError as error:
            raise failure(errno.EIO) from error

    def _hold_in(self, mount: int, directory: bytes) -> _Hold | None:
        closing = self._closing.get((mount, directory))
        if closing is not None:
            return closing
        for place, hold in self._locks.items():
            if (place.mount, place.directory) == (mount, directory):
                return hold
        return None

    async def _verify(self, mount: int, directory: bytes) -> bool:
        """Asks the home rank of a directory's own name whether it is a directory; False only if it
        is none."""
        place, turn = split(mount, directory), self._turn
        rank = home_rank_of(mount, place.directory, self._peers.world_size)
        entry = await self._peers.call(rank, "home.entry", place)
        if turn != self._turn:
            return True  # asked again
        there = entry is not None and entry.is_directory
        if there:
            self.name_tables.know(mount, directory)
        return there

    # Announcing.

    def _record_to_announce(self, place: Place) -> int | None:
        """Returns the input directory of which other ranks do not know yet that it has outputs, or
        None."""
        table = self.name_tables.table(place.mount, place.directory)
        if table.announced:
            return None
        record = self._inputs[place.mount].record(place.directory)
        table.announced = record is None or (place.mount, record) in self._announced
        return None if table.announced else record

    async def _announce(self, place: Place) -> None:
        record = self._record_to_announce(place)
        if record is None:
            return
        key = (place.mount, record)
        if key not in self._announcing:
            self._announcing[key] = asyncio.create_task(self._tell_all(*key))
        await asyncio.shield(self._announcing[key])

    async def _tell_all(self, mount: int, record: int) -> None:
        try:
            ranks = [r for r in range(self._peers.world_size) if not self._peers.is_lost(r)]
            calls = [self._peers.call(rank, "touch", mount, record) for rank in ranks]
            results = await asyncio.gather(*calls, return_exceptions=True)
            for rank, result in zip(ranks, results, strict=True):
                if isinstance(result, BaseException) and not self._peers.is_lost(rank):
                    raise result
            self._announced.add((mount, record))
        finally:
            del self._announcing[mount, record]
