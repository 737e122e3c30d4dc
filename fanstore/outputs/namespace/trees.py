"""Answers rename(2) of directories, with all below them, while all ranks' operations are
stopped."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from fanstore.outputs.model.entries import Place, Slot, failure
from fanstore.outputs.model.name_tables import Removed, Table
from fanstore.outputs.namespace.context import Context
from fanstore.outputs.namespace.walk import Resolved

Tree = dict[bytes, Table]  # by directory, as the rest of its path: b"", b"/a", b"/a/b"


class Trees:
    """Moves directories for the clients of one rank."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def rename(self, old: Resolved, new: Resolved) -> None:
        """Moves a directory to a name that is free or that of an empty directory. Raises
        ENOTEMPTY."""
        homes = self._context.homes
        if not new.is_free and not await homes.is_empty(new.mount, new.path):
            raise failure(errno.ENOTEMPTY, new.path)
        await self._make_ready(new.place)
        source, target = await homes.slot(old.place), await homes.slot(new.place)
        tree = await self._tree(old)
        # New names first: a rank that is lost meanwhile takes none with it but its own.
        await self._drop(new)
        await self._put(new, tree)
        await homes.set_slot(new.place, source)
        await homes.set_slot(old.place, Slot())
        await self._drop(old)
        await self._context.everywhere("tree.moved", old.mount, old.path, new.path)
        await self._context.gone(Removed(None, target.draft))
        self._context.observer.moved(new.place)
        self._context.observer.changed(old.place)

    async def _make_ready(self, place: Place) -> None:
        """Waits for what must come before a name is put in a directory for the first time."""
        await self._context.homes.lock(place, -1)
        await self._context.homes.unlock(place, -1)

    async def _tree(self, top: Resolved) -> Tree:
        tree: Tree = {}
        for part in await self._context.everywhere("home.tables", top.mount, top.path):
            tree.update(part)
        return tree

    async def _drop(self, top: Resolved) -> None:
        await self._context.everywhere("home.drop_tables", top.mount, top.path)

    async def _put(self, top: Resolved, tree: Mapping[bytes, Table]) -> None:
        by_rank: dict[int, dict[bytes, Table]] = {}
        for rest, table in tree.items():
            directory = top.path + rest
            rank = self._context.homes.rank(top.mount, directory)
            by_rank.setdefault(rank, {})[directory] = table
        await self._context.at(by_rank, lambda rank: ("home.put_tables", top.mount, by_rank[rank]))
