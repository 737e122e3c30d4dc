"""Makes copies of objects for the output directory, whole and synced before they get their
names."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from fanstore._native import ffi
from fanstore.outputs.model.entries import Attr, Entry
from fanstore.outputs.objects.objects import ObjectStore
from fanstore.outputs.stageout.copying import copy_object, copy_together, link_again
from fanstore.outputs.stageout.journal import Journal, Name, Placed
from fanstore.outputs.stageout.placing import OutputDirectory

TOGETHER = 128  # files that are synced, and named, at once
SMALL_BYTES = 1 << 20
_GROUPS_AHEAD = 3
AHEAD = _GROUPS_AHEAD * TOGETHER  # files among which those are that are copied early


@dataclass(eq=False)
class _Copy:
    """A copy that is being made or was. attr: the attributes that it gets. path: where it is.
    wanted: False once its object is gone. error: why there is none."""

    object_id: int
    attr: Attr
    path: bytes = b""
    copied_bytes: int = 0
    wanted: bool = True
    error: OSError | None = None


class _Begun(NamedTuple):
    """A copy that was begun before anybody asked for it. done: its whole group is."""

    copy: _Copy
    done: asyncio.Future[None]


class Supplier:
    """Copies the objects of this rank, when the home ranks of their names ask for them; small ones
    before that in groups, since syncing each takes longer than copying it."""

    def __init__(self, objects: ObjectStore, journal: Journal, directory: OutputDirectory) -> None:
        self._objects = objects
        self._journal = journal
        self._directory = directory
        self._thread = ThreadPoolExecutor(1, "stage-out")
        self._early = ThreadPoolExecutor(_GROUPS_AHEAD, "stage-out-early")
        self._ended = ffi.new("int32_t *")
        self._begun: dict[int, _Begun] = {}
        self._asked: set[int] = set()  # for these nobody needs a copy made early any more
        self._current: _Copy | None = None
        self.copied_bytes = 0

    @property
    def current_bytes(self) -> int:
        """The bytes of the object under way that are copied so far."""
        current = self._current
        return 0 if current is None else current.copied_bytes

    @property
    def has_room(self) -> bool:
        """Whether more copies ought to be begun now, as many as make a group."""
        return len(self._begun) <= AHEAD - TOGETHER and not self._ended[0]

    def begin(self, entries: Iterable[Entry]) -> None:
        """Begins the copies of those of these files that are small and going to be asked for
        soon."""
        waiting = self._journal.ledger.waiting
        wanted = {  # an object that is renamed may wait under both of its names
            entry.object_id: _Copy(entry.object_id, entry.attr)
            for entry in entries
            if entry.attr.size <= SMALL_BYTES
            and entry.object_id in waiting
            and entry.object_id not in self._begun
            and entry.object_id not in self._asked
        }
        new = list(wanted.values())
        loop = asyncio.get_running_loop()
        for start in range(0, len(new), TOGETHER):
            group = new[start : start + TOGETHER]
            done = loop.run_in_executor(self._early, self._make_group, group)
            for copy in group:
                self._begun[copy.object_id] = _Begun(copy, done)

    async def supply(self, object_id: int, name: Name, attr: Attr) -> bytes:
        """Returns the path of a file in the scratch directory with the bytes of an object, for that
        name. Raises OSError."""
        self._journal.name(object_id, name, attr.size)
        self._asked.add(object_id)
        begun = self._begun.get(object_id)
        if begun is not None:
            await asyncio.shield(begun.done)  # it is the whole group's
            # Two names may wait for it: of an object that is renamed, the old and the new one.
            if self._begun.get(object_id) is begun:
                copy = begun.copy
                if copy.wanted and copy.error is None and copy.attr == attr:
                    del self._begun[object_id]
                    return copy.path
                self._drop(begun)
        placed = self._journal.ledger.placed.get(object_id)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._make, object_id, attr, placed)
        except OSError:
            await self._drop_begun()  # they take room that this one may need
            raise

    async def supply_together(self, wanted: Sequence[tuple[int, Name, Attr]]) -> list[bytes]:
        """Returns what `supply` does, of the first objects for which it does not fail."""
        with self._journal.together():
            for object_id, name, attr in wanted:
                self._journal.name(object_id, name, attr.size)
        paths: list[bytes] = []
        with contextlib.suppress(OSError):
            for each in wanted:
                paths.append(await self.supply(*each))
        return paths

    def _make(self, object_id: int, attr: Attr, placed: Placed | None) -> bytes:
        copy = self._current = _Copy(object_id, attr)
        try:
            copy.path = self._directory.scratch(object_id)
            if placed is not None:
                earlier = self._directory.path(placed.name)
                if link_again(earlier, placed.identity, attr, copy.path):
                    return copy.path
            source = self._objects.path(object_id)
            copy_object(source, copy.path, attr, lambda count: self._advance(copy, count))
            return copy.path
        except FileNotFoundError:
            if os.path.lexists(self._objects.path(object_id)):
                raise
            raise OSError(errno.ECANCELED, "it was removed") from None  # which is about to be told
        finally:
            self._current = None

    def _make_group(self, group: Sequence[_Copy]) -> None:
        """Makes copies that are synced together, all that can be made."""
        errors: Sequence[OSError | None]
        try:
            paths = self._directory.scratch_paths([copy.object_id for copy in group])
            files = [
                (self._objects.path(copy.object_id), path, copy.attr)
                for copy, path in zip(group, paths, strict=True)
            ]
            errors = copy_together(files, self._ended)
        except OSError as error:
            paths, errors = [b""] * len(group), [error] * len(group)
        for copy, path, problem in zip(group, paths, errors, strict=True):
            copy.path, copy.error = path, problem
            self.copied_bytes += 0 if problem else copy.attr.size

    def _advance(self, copy: _Copy, count: int) -> None:
        self.copied_bytes += count
        copy.copied_bytes += count
        if self._ended[0] or not copy.wanted:
            raise OSError(errno.ECANCELED, "not waited for")

    async def _drop_begun(self) -> None:
        """Removes the copies that nobody has asked for yet."""
        for begun in list(self._begun.values()):
            begun.copy.wanted = False
            await asyncio.shield(begun.done)
            self._drop(begun)

    def discarded(self, object_id: int) -> None:
        """Ends the copy of an object that is gone, which until then takes its room on the disk."""
        self._asked.discard(object_id)
        current = self._current
        if current is not None and current.object_id == object_id:
            current.wanted = False
        begun = self._begun.get(object_id)
        if begun is not None:
            begun.copy.wanted = False
            begun.done.add_done_callback(lambda _: self._drop(begun))

    def _drop(self, begun: _Begun) -> None:
        """Removes a copy, if nobody has taken it."""
        object_id = begun.copy.object_id
        if self._begun.get(object_id) is begun:
            del self._begun[object_id]
            with contextlib.suppress(OSError):
                os.unlink(begun.copy.path)

    def give_up(self) -> None:
        """Ends the copy that is being made, and every later one."""
        self._ended[0] = 1

    def close(self) -> None:
        """Ends the threads and removes unused copies; waits only for small copies that were begun
        early."""
        self._ended[0] = 1
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._early.shutdown(wait=True, cancel_futures=True)
        for begun in list(self._begun.values()):
            self._drop(begun)
