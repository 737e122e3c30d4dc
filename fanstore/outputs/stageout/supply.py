"""Makes copies of objects for the output directory, whole and synced before they get their
names."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from fanstore.outputs.model.entries import Attr, Entry
from fanstore.outputs.model.interfaces import ObjectStore
from fanstore.outputs.stageout.copying import copy_object, link_again
from fanstore.outputs.stageout.journal import Journal, Name, Placed
from fanstore.outputs.stageout.placing import OutputDirectory

AHEAD = 8  # copies that are made before they are asked for
_EARLY_MOST_BYTES = 1 << 20


@dataclass
class _Copy:
    """A copy that is being made or was. attr: the attributes that it gets. path: where it is, once
    it is begun. wanted: False once its object is gone."""

    attr: Attr
    path: bytes = b""
    done: asyncio.Future[bytes] | None = None
    copied_bytes: int = 0
    wanted: bool = True


class Supplier:
    """Copies the objects of this rank, when the home ranks of their names ask for them; of small
    ones several at a time, since syncing each takes longer than copying it."""

    def __init__(self, objects: ObjectStore, journal: Journal, directory: OutputDirectory) -> None:
        self._objects = objects
        self._journal = journal
        self._directory = directory
        self._thread = ThreadPoolExecutor(1, "stage-out")
        self._early = ThreadPoolExecutor(AHEAD, "stage-out-early")
        self._given_up = False
        self._begun: dict[int, _Copy] = {}
        self._asked: set[int] = set()  # for these nobody needs a copy made early any more
        self._current: _Copy | None = None
        self._current_id = 0
        self.copied_bytes = 0

    @property
    def current_bytes(self) -> int:
        """The bytes of the object under way that are copied so far."""
        current = self._current
        return 0 if current is None else current.copied_bytes

    def begin(self, entry: Entry) -> None:
        """Begins the copy of a small file that is going to be asked for soon."""
        object_id = entry.object_id
        small = entry.attr.size <= _EARLY_MOST_BYTES
        known = object_id in self._begun or object_id in self._asked
        waits = object_id in self._journal.ledger.waiting
        if not small or known or not waits or self._given_up:
            return
        copy = self._begun[object_id] = _Copy(entry.attr)
        loop = asyncio.get_running_loop()
        copy.done = loop.run_in_executor(self._early, self._copy, object_id, copy)
        copy.done.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def supply(self, object_id: int, name: Name, attr: Attr) -> bytes:
        """Returns the path of a file in the scratch directory with the bytes of an object, for that
        name. Raises OSError."""
        self._journal.name(object_id, name, attr.size)
        self._asked.add(object_id)
        begun = self._begun.get(object_id)
        if begun is not None and begun.done is not None:
            with contextlib.suppress(OSError):  # then it is tried again
                path = await begun.done
                # Two names may wait for it: of an object that is renamed, the old and the new one.
                taken = self._begun.pop(object_id, None) is begun
                if taken and begun.wanted:
                    if begun.attr == attr:
                        return path
                    os.unlink(path)
            self._begun.pop(object_id, None)
        placed = self._journal.ledger.placed.get(object_id)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._make, object_id, attr, placed)
        except OSError:
            await self._drop_begun()  # they take room that this one may need
            raise

    def _make(self, object_id: int, attr: Attr, placed: Placed | None) -> bytes:
        if placed is not None:
            earlier = self._directory.path(placed.name)
            temporary = self._directory.scratch(object_id)
            if link_again(earlier, placed.identity, attr, temporary):
                return temporary
        self._current_id, self._current = object_id, _Copy(attr)
        try:
            return self._copy(object_id, self._current)
        finally:
            self._current = None

    def _copy(self, object_id: int, copy: _Copy) -> bytes:
        temporary = copy.path = self._directory.scratch(object_id)

        def advance(count: int) -> None:
            self.copied_bytes += count
            copy.copied_bytes += count
            if self._given_up or not copy.wanted:
                raise OSError(errno.ECANCELED, "not waited for")

        source = self._objects.path(object_id)
        try:
            copy_object(source, temporary, copy.attr, advance)
        except FileNotFoundError:
            if os.path.lexists(source):
                raise
            raise OSError(errno.ECANCELED, "it was removed") from None  # which is about to be told
        return temporary

    async def _drop_begun(self) -> None:
        """Removes the copies that nobody has asked for yet."""
        for object_id, copy in list(self._begun.items()):
            self._begun.pop(object_id, None)
            if copy.done is not None:
                with contextlib.suppress(OSError):
                    os.unlink(await copy.done)

    def discarded(self, object_id: int) -> None:
        """Ends the copy of an object that is gone, which until then takes its room on the disk."""
        self._asked.discard(object_id)
        current = self._current
        if current is not None and self._current_id == object_id:
            current.wanted = False
        begun = self._begun.get(object_id)
        if begun is not None and begun.done is not None:
            begun.wanted = False
            begun.done.add_done_callback(lambda done: self._unlink(object_id, done))

    def _unlink(self, object_id: int, done: asyncio.Future[bytes]) -> None:
        self._begun.pop(object_id, None)
        if not done.cancelled() and done.exception() is None:
            with contextlib.suppress(OSError):
                os.unlink(done.result())

    def give_up(self) -> None:
        """Ends the copy that is being made, and every later one."""
        self._given_up = True

    def close(self) -> None:
        """Ends the threads and removes unused copies; waits only for small copies that were begun
        early."""
        self._given_up = True
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._early.shutdown(wait=True, cancel_futures=True)
        for copy in self._begun.values():
            with contextlib.suppress(OSError):
                os.unlink(copy.path)
        self._begun.clear()
