"""Makes copies of objects for the output directory, whole and synced before they get their
names."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fanstore._native import ffi
from fanstore.outputs.model.entries import Attr, Entry, Place
from fanstore.outputs.objects.files import set_attr
from fanstore.outputs.objects.objects import ObjectStore
from fanstore.outputs.stageout.copying import copy_object, copy_together, link_again
from fanstore.outputs.stageout.journal import Journal
from fanstore.outputs.stageout.placing import OutputDirectory

TOGETHER = 128  # files that are synced, and named, at once
SMALL_BYTES = 1 << 20
_GROUPS_AHEAD = 3
AHEAD = _GROUPS_AHEAD * TOGETHER  # files among which those are that are copied early

T = TypeVar("T")


class _LinkInstead(Exception):
    """Ends a copy in whose place a second name will do by now."""


class Supplier:
    """Copies the objects of this rank, when the home ranks of their names ask for them; small ones
    before that in groups, since syncing each takes longer than copying it.

    Once the programs of all ranks have ended nothing changes or reads an object any more: where it
    lies on the file system of the output directory it gets a second name there, not a copy."""

    def __init__(self, objects: ObjectStore, journal: Journal, directory: OutputDirectory) -> None:
        self._objects = objects
        self._journal = journal
        self._directory = directory
        self._thread = ThreadPoolExecutor(1, "stage-out")
        self._early = ThreadPoolExecutor(_GROUPS_AHEAD, "stage-out-early")
        self._ended = ffi.new("int32_t *")
        self._unused = False
        self._links: bool | None = None  # whether one can be made, once that was tried
        self._coming: dict[int, Attr] = {}  # small ones that are not begun, in their order
        self._begun: dict[int, tuple[Attr, asyncio.Future[dict[int, bytes]]]] = {}
        self.current_bytes = 0  # copied so far of a large one
        self.copied_bytes = 0

    def published(self, entry: Entry) -> None:
        """Notes a file that is going to be asked for."""
        if entry.attr.size <= SMALL_BYTES:
            self._coming[entry.object_id] = entry.attr

    def changed(self, object_id: int, attr: Attr) -> None:
        """Notes that a file has other attributes by now."""
        if object_id in self._coming:
            self._coming[object_id] = attr

    def unused(self) -> None:
        """Notes that the programs of all ranks have ended."""
        self._unused = True

    def begin(self, count: int) -> None:
        """Begins copies, until there are so many that nobody has asked for yet."""
        if len(self._begun) <= AHEAD - TOGETHER and not self._ended[0]:
            self._begin(list(itertools.islice(self._coming, max(0, count - len(self._begun)))))

    def _begin(self, objects: Sequence[int]) -> None:
        loop = asyncio.get_running_loop()
        for start in range(0, len(objects), TOGETHER):
            group = {each: self._coming.pop(each) for each in objects[start : start + TOGETHER]}
            made = loop.run_in_executor(self._early, self._make_group, group)
            self._begun.update((each, (attr, made)) for each, attr in group.items())

    async def supply(self, wanted: Sequence[tuple[int, Place, Attr]]) -> list[bytes]:
        """Returns the paths of files in the scratch directory with the bytes of these objects, for
        those names: of the first for which that does not fail. Raises the OSError of the first."""
        with self._journal.together():
            for object_id, name, attr in wanted:
                self._journal.name(object_id, name, attr.size)
        self._begin([object_id for object_id, _, _ in wanted if object_id in self._coming])
        paths: list[bytes] = []
        try:
            for object_id, _, attr in wanted:
                if paths and attr.size > SMALL_BYTES:
                    break  # what is there need not wait for it
                early = await self._take(object_id, attr)
                paths.append(early or await self._run(self._make, object_id, attr))
        except OSError:
            await self._drop_begun()  # they take room that this one may need
            if not paths:
                raise
        return paths

    async def _take(self, object_id: int, attr: Attr) -> bytes:
        """Returns the path of a copy that was begun before, with these attributes; b"" where there
        is none. Two names may ask for it: of an object that is renamed, the old and the new one."""
        if object_id not in self._begun:
            return b""
        begun_attr, made = self._begun.pop(object_id)
        path = (await asyncio.shield(made)).get(object_id, b"")  # it is the whole group's
        if path and object_id not in self._journal.named:
            _unlink(path)
            return b""
        if path and begun_attr != attr:
            await self._run(set_attr, path, attr)
        return path

    def _make(self, object_id: int, attr: Attr) -> bytes:
        """Makes a copy, in a thread; returns its path."""
        (path,) = self._directory.scratch([object_id])
        placed = self._journal.placed(object_id)
        try:
            if placed is None or not link_again(
                self._directory.path(placed.name), placed.identity, attr, path
            ):
                self._bring(object_id, path, attr)
            return path
        except FileNotFoundError:
            if os.path.lexists(self._objects.path(object_id)):
                raise
            raise OSError(errno.ECANCELED, "it was removed") from None  # which is about to be told
        finally:
            self.current_bytes = 0

    def _bring(self, object_id: int, path: bytes, attr: Attr) -> None:
        """Makes a second name for an object, or else a copy; what may be linked by now is not
        copied to the end."""
        source, by_link = self._objects.path(object_id), self._may_link(object_id)
        if by_link and copy_together([(source, path, attr)], True, self._ended) == [None]:
            self.copied_bytes += attr.size
            return
        try:
            copy_object(source, path, attr, lambda n: self._advance(object_id, n, not by_link))
        except _LinkInstead:
            self.copied_bytes -= self.current_bytes
            self.current_bytes = 0
            self._bring(object_id, path, attr)

    def _may_link(self, object_id: int) -> bool:
        if self._unused and self._links is None:
            self._links = self._directory.takes_link(self._objects.path(object_id))
        return bool(self._links)

    def _make_group(self, group: Mapping[int, Attr]) -> dict[int, bytes]:
        """Makes copies that are synced together, in a thread; returns the paths of all that could
        be made."""
        made: dict[int, bytes] = {}
        with contextlib.suppress(OSError):
            paths = self._directory.scratch(list(group))
            attrs = zip(group.items(), paths, strict=True)
            files = [(self._objects.path(each), path, attr) for (each, attr), path in attrs]
            by_link = self._may_link(next(iter(group)))
            errors = copy_together(files, by_link, self._ended)
            for object_id, (_, path, attr), error in zip(group, files, errors, strict=True):
                if error is None:
                    made[object_id] = path
                    self.copied_bytes += attr.size
        return made

    def _advance(self, object_id: int, count: int, may_end: bool) -> None:
        """Counts bytes that were copied. may_end: the copy ends where a link will do."""
        self.copied_bytes += count
        self.current_bytes += count
        if self._ended[0] or object_id not in self._journal.named:
            raise OSError(errno.ECANCELED, "not waited for")
        if may_end and self._may_link(object_id):
            raise _LinkInstead

    async def _drop_begun(self) -> None:
        """Removes the copies that nobody has asked for yet: they may be begun again."""
        for object_id, (attr, _) in list(self._begun.items()):
            path = await self._take(object_id, attr)
            if path:
                _unlink(path)
            if object_id in self._journal.named:
                self._coming[object_id] = attr

    def discarded(self, object_id: int) -> None:
        """Ends the copy of an object that is gone, which until then takes its room on the disk."""
        self._coming.pop(object_id, None)
        if object_id in self._begun:
            attr, made = self._begun[object_id]
            made.get_loop().create_task(self._take(object_id, attr))

    def give_up(self) -> None:
        """Ends the copy that is being made, and every later one."""
        self._ended[0] = 1

    def close(self) -> None:
        """Ends the threads; waits only for small copies that were begun early. Copies that nobody
        took are left, in the scratch directory."""
        self._ended[0] = 1
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._early.shutdown(wait=True, cancel_futures=True)

    async def _run(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)


def _unlink(path: bytes) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
