"""Asks the home rank of a name, this one or another, for the steps of its name tables."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from fanstore.outputs.model.entries import Place, home_rank_of
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.ranks.home_server import HomeServer
from fanstore.peers.interface import Peers

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Step(Generic[_P, _R]):
    """A method that asks a home for the step of NameTables, or of HomeServer, of the same name."""

    def __init__(self, step: Callable[Concatenate[NameTables, _P], _R]) -> None:
        self._name = step.__name__

    def __get__(self, homes: HomeClient, _: type) -> Callable[_P, Awaitable[_R]]:
        return partial(homes.ask, self._name)


def _served(step: Callable[Concatenate[HomeServer, int, _P], Awaitable[_R]]) -> _Step[_P, _R]:
    return _Step(step)  # type: ignore[arg-type]


class HomeClient:
    """The steps of NameTables, each done by the home rank of the name. All raise OSError; EIO when
    that rank is lost. Steps that change something wait while the name or its directory is moved."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

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
    unlock = _served(HomeServer.unlock)
    close = _served(HomeServer.close)
    end_close = _served(HomeServer.end_close)
    slot = _Step(NameTables.slot)
    list = _Step(NameTables.list)
    is_empty = _Step(NameTables.is_empty)
    changed_ns = _Step(NameTables.changed_ns)
    reserve = _Step(NameTables.reserve)
    release = _Step(NameTables.release)
    publish = _Step(NameTables.publish)
    insert = _Step(NameTables.insert)
    remove = _Step(NameTables.remove)
    move = _Step(NameTables.move)
    change = _Step(NameTables.change)
    set_attr = _Step(NameTables.set_attr)
    set_time = _Step(NameTables.set_time)
    set_slot = _Step(NameTables.set_slot)  # while all gates are closed, or the name is locked
