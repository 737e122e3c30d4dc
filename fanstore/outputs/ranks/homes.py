"""The name tables of all ranks: each rank serves its own, as their home, and asks for the others.

A change in a directory waits until it is certain that the directory is there (its own name is kept
by the home of its parent, which is asked once), until all ranks know that names can be there that
are not in the index, and while the name or the directory is about to be moved or removed."""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from fanstore.outputs.model.entries import Entry, Place, Slot, failure, home_rank_of, split
from fanstore.outputs.model.interfaces import Inputs
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.ranks.asking import ask_all
from fanstore.peers.interface import Peers

WAIT_S = 10.0
_TRIES = 1000


@dataclass
class _Hold:
    """A name or directory that a rank is moving or removing: others wait until that is over."""

    rank: int
    token: int
    over: asyncio.Event = field(default_factory=asyncio.Event)


class HomeServer:
    """Serves the name tables of this rank to all ranks, itself included. Of a directory that is
    about to be removed the hold is on the name b"" in it."""

    def __init__(self, name_tables: NameTables, peers: Peers, inputs: Sequence[Inputs]) -> None:
        self.name_tables = name_tables
        self._peers = peers
        self._inputs = inputs
        self._holds: dict[Place, _Hold] = {}
        self._turn = 0  # counts what may make a directory's being there uncertain
        self._touched: set[tuple[int, int | None]] = set()  # where all ranks know to ask
        peers.serve("home.entry", lambda _, place: name_tables.get(place))
        for name, step in vars(HomeClient).items():
            if isinstance(step, _Step):
                peers.serve(f"home.{name}", self._answer_of(step))
        peers.serve("touch", lambda _, mount, record: inputs[mount].touch(record))
        peers.on_lost(self._lost)

    def _answer_of(self, step: _Step[..., Any]) -> Any:
        if step.own:
            return getattr(self, step.function.__name__)
        function = partial(step.function, self.name_tables)

        async def run(rank: int, place: Place, *args: Any) -> Any:
            await self._until_ready(rank, place)
            return function(place, *args)

        return run if step.waits else lambda _, *args: function(*args)

    # What other ranks ask; the first argument is theirs.

    async def get(self, _rank: int, place: Place) -> Entry | None:
        """Returns what is published under a name, after asking whether the directory exists if that
        is not known. Raises ENOENT where it does not, by that very path."""
        while not self._is_known(place.mount, place.directory):
            await self._until_known(place)
        return self.name_tables.get(place)

    async def lock(self, rank: int, place: Place, token: int) -> Slot:
        """Keeps all others from changing a name until `unlock`; returns what it stands for."""
        await self._until_ready(rank, place)
        self._hold(place, rank, token)
        slot = self.name_tables.slot(place)
        if slot.draft is not None:  # its program could publish it, also in a closed directory
            self.name_tables.segment.take_draft(slot.draft)
        return slot

    async def close(self, rank: int, inside: Place, token: int) -> None:
        """Keeps names from coming into an empty directory that is about to be removed, until
        `unlock` of the name b"" in it; waits until nothing in it is being moved. Raises
        ENOTEMPTY."""
        mount, directory = inside.mount, inside.directory
        while hold := self._hold_in(mount, directory):
            await self._over(hold)
        self._refuse_lost(rank)
        if not self.name_tables.is_empty(mount, directory):
            raise failure(errno.ENOTEMPTY, directory)
        self._hold(inside, rank, token)

    async def unlock(self, _rank: int, place: Place, token: int, gone: bool = False) -> None:
        """Ends `lock` or `close`; one with another token stays. gone: the directory that was closed
        was removed."""
        hold = self._holds.get(place)
        if hold is not None and hold.token == token:
            self._let_go(place, gone)

    def _refuse_lost(self, rank: int) -> None:
        """Raises EIO where the rank that asked is lost by now: what it began would never end."""
        if self._peers.is_lost(rank):
            raise failure(errno.EIO)

    def _lost(self, rank: int) -> None:
        """Ends what a lost rank was moving, so that it may change again, and what it was removing,
        which is looked at again. What it was writing is dropped."""
        self.name_tables.drop_drafts(rank)
        for place in [place for place, hold in self._holds.items() if hold.rank == rank]:
            self._let_go(place, gone=not place.name)

    def _hold(self, place: Place, rank: int, token: int) -> None:
        self._turn += not place.name
        self._holds[place] = _Hold(rank, token)
        self.name_tables.segment.close_directory(place.mount, place.directory)

    def _let_go(self, place: Place, gone: bool) -> None:
        self._turn += not place.name
        self._holds.pop(place).over.set()
        if gone:
            self.name_tables.forget(place.mount, place.directory)
        self._open(place.mount, place.directory)

    def _open(self, mount: int, directory: bytes) -> None:
        """Lets programs change the names in a directory, unless one of them is held."""
        if self._hold_in(mount, directory) is None:
            self.name_tables.segment.open_directory(mount, directory)

    # Waiting.

    def _is_known(self, mount: int, directory: bytes) -> bool:
        if self.name_tables.is_known(mount, directory):
            return True
        if self._inputs[mount].kind(directory) != "directory":
            return False
        self.name_tables.know(mount, directory)
        return True

    def made(self, mount: int, directory: bytes) -> None:
        """Notes that a program has made a directory itself, and perhaps names in it."""
        if home_rank_of(mount, directory, self._peers.world_size) == self._peers.rank:
            self.name_tables.know(mount, directory)
            self.name_tables.segment.open_directory(mount, directory)

    def removed(self, mount: int, directory: bytes) -> None:
        """Notes that a program has removed a directory itself."""
        self.name_tables.forget(mount, directory)
        self._turn += 1

    async def _until_ready(self, rank: int, place: Place) -> None:
        """Waits until a name may change, and that rank may change it. Raises ENOENT when its
        directory does not exist, EIO when it takes too long."""
        mount, directory = place.mount, place.directory
        record = self._inputs[mount].record(directory)
        touched = mount, record
        for _ in range(_TRIES):
            hold = self._holds.get(place) or self._holds.get(place._replace(name=b""))
            if hold is not None:
                await self._over(hold)
            elif not self._is_known(mount, directory):
                await self._until_known(place)
            elif record is not None and touched not in self._touched:
                await ask_all(self._peers, "touch", *touched)
                self._touched.add(touched)
            else:
                self._refuse_lost(rank)
                self._open(mount, directory)
                return
        raise failure(errno.EIO, place.path)

    async def _until_known(self, place: Place) -> None:
        """Asks the home rank of a directory's own name whether it is a directory. Raises ENOENT if
        it is none. It may be unknown afterwards, and is to be asked again."""
        own, turn = split(place.mount, place.directory), self._turn
        rank = home_rank_of(own.mount, own.directory, self._peers.world_size)
        entry = await self._peers.call(rank, "home.entry", own)
        if turn != self._turn:
            return
        if entry is None or not entry.is_directory:
            raise failure(errno.ENOENT, place.path)
        self.name_tables.know(place.mount, place.directory)

    @staticmethod
    async def _over(hold: _Hold) -> None:
        try:
            await asyncio.wait_for(hold.over.wait(), WAIT_S)
        except asyncio.TimeoutError as error:
            raise failure(errno.EIO) from error

    def _hold_in(self, mount: int, directory: bytes) -> _Hold | None:
        holds = self._holds.items()
        return next((h for p, h in holds if (p.mount, p.directory) == (mount, directory)), None)


_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass
class _Step(Generic[_P, _R]):
    """A method that asks a home for a step of NameTables, or of its HomeServer. waits: until the
    names that it changes may change."""

    function: Callable[Concatenate[NameTables, _P], _R]
    waits: bool = False
    own: bool = False

    def __get__(self, homes: HomeClient, _: type) -> Callable[_P, Awaitable[_R]]:
        return partial(homes.ask, self.function.__name__)


def _served(step: Callable[Concatenate[HomeServer, int, _P], Awaitable[_R]]) -> _Step[_P, _R]:
    return _Step(step, own=True)  # type: ignore[arg-type]


class HomeClient:
    """The steps of NameTables, each done by the home rank of the name. All raise OSError; EIO when
    that rank is lost. Steps that change something wait while the name or its directory is moved."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._tokens = itertools.count(peers.rank, peers.world_size)

    def new_token(self) -> int:
        """Returns a number for a lock that no rank has used before."""
        return next(self._tokens)

    def rank(self, mount: int, directory: bytes) -> int:
        """Returns the home rank of a directory: the one that keeps the names in it."""
        return home_rank_of(mount, directory, self._peers.world_size)

    async def ask(self, step: str, *args: Any) -> Any:
        """Has the home rank do a step, whose arguments begin with a place, or with a mount and a
        directory."""
        first = args[0]
        key = (first.mount, first.directory) if isinstance(first, Place) else args[:2]
        return await self._peers.call(self.rank(*key), f"home.{step}", *args)

    get = _served(HomeServer.get)
    lock = _served(HomeServer.lock)
    close = _served(HomeServer.close)
    unlock = _served(HomeServer.unlock)

    reserve = _Step(NameTables.reserve, waits=True)
    release = _Step(NameTables.release, waits=True)
    publish = _Step(NameTables.publish, waits=True)
    insert = _Step(NameTables.insert, waits=True)
    remove = _Step(NameTables.remove, waits=True)
    change = _Step(NameTables.change, waits=True)

    # These change no name, or are taken while all gates are closed or the name is locked.
    slot = _Step(NameTables.slot)
    list = _Step(NameTables.list)
    is_empty = _Step(NameTables.is_empty)
    changed_ns = _Step(NameTables.changed_ns)
    set_time = _Step(NameTables.set_time)
    set_slot = _Step(NameTables.set_slot)
    tables = _Step(NameTables.tables)
    drop_tables = _Step(NameTables.drop_tables)
    put_tables = _Step(NameTables.put_tables)
