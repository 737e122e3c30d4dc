"""What the namespace of outputs works with, as tests have it: calls between ranks in one loop
through queues with delays, drafts whose ends a test tells, objects in a temporary directory, inputs
from a dictionary."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import inspect
import os
import pickle
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fanstore.outputs.model.entries import Attr, Changes, Entry, Place, failure
from fanstore.outputs.objects.objects import ObjectStore


class World:
    """What carries the calls. delay: a call's, in turns of the loop; per pair of ranks in order."""

    def __init__(self, size: int, delay: Callable[[], int] = lambda: 0) -> None:
        self.size = size
        self.delay = delay
        self.calls = 0
        self.lost: set[int] = set()
        self.ranks: list[MemoryPeers] = [MemoryPeers(self, rank) for rank in range(size)]
        self.queues: dict[tuple[int, int], asyncio.Queue[Any]] = {}
        self.carriers: list[asyncio.Task[None]] = []
        self.tasks: set[asyncio.Task[Any]] = set()

    def post(self, source: int, target: int, item: Any) -> None:
        """Sends, in order."""
        pair = source, target
        if pair not in self.queues:
            self.queues[pair] = asyncio.Queue()
            self.carriers.append(asyncio.create_task(self._carry(self.queues[pair])))
        self.queues[pair].put_nowait(item)

    async def _carry(self, queue: asyncio.Queue[Any]) -> None:
        while True:
            item = await queue.get()
            for _ in range(self.delay()):
                await asyncio.sleep(0)
            item()

    def run(self, coroutine: Any) -> None:
        """Runs something beside everything else."""
        task = asyncio.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def lose(self, rank: int) -> None:
        """A rank is no more."""
        self.lost.add(rank)
        for peers in self.ranks:
            if peers.rank != rank:
                peers.lose(rank)

    async def quiet(self) -> None:
        """Until all that was told has arrived."""
        for _ in range(200):
            await asyncio.sleep(0)

    def close(self) -> None:
        """Ends the carriers."""
        for task in [*self.carriers, *self.tasks]:
            task.cancel()


class MemoryPeers:
    """fanstore.peers.interface.Peers."""

    def __init__(self, world: World, rank: int) -> None:
        self._world = world
        self.rank = rank
        self.world_size = world.size
        self._functions: dict[str, Callable[..., Any]] = {}
        self._callbacks: list[Callable[[int], None]] = []
        self._waiting: dict[asyncio.Future[Any], int] = {}
        self.broken: dict[str, int] = {}  # calls that fail: name to how many still

    def serve(self, name: str, function: Callable[..., Any]) -> None:
        assert name not in self._functions
        self._functions[name] = function

    def is_lost(self, rank: int) -> bool:
        return rank in self._world.lost

    def on_lost(self, callback: Callable[[int], None]) -> None:
        self._callbacks.append(callback)

    def lose(self, rank: int) -> None:
        for future, target in list(self._waiting.items()):
            if target == rank and not future.done():
                future.set_exception(failure(errno.EIO))
        for callback in self._callbacks:
            callback(rank)

    async def call(self, rank: int, name: str, *args: Any) -> Any:
        self._world.calls += 1
        if self.is_lost(rank) or self.is_lost(self.rank):
            raise failure(errno.EIO)
        if self.broken.get(name, 0) > 0:
            self.broken[name] -= 1
            raise failure(errno.EIO)
        if rank == self.rank:
            return await self.answer(rank, name, args)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[future] = rank
        message = pickle.dumps((name, args))
        self._world.post(self.rank, rank, lambda: self._deliver(rank, message, future))
        try:
            return await future
        finally:
            del self._waiting[future]

    def tell(self, rank: int, name: str, *args: Any) -> None:
        if not self.is_lost(rank):
            message = pickle.dumps((name, args))
            self._world.post(self.rank, rank, lambda: self._deliver(rank, message, None))

    def _deliver(self, rank: int, message: bytes, future: asyncio.Future[Any] | None) -> None:
        if self.is_lost(rank):
            return
        self._world.run(self._world.ranks[rank].serve_one(self.rank, message, future))

    async def serve_one(
        self, sender: int, message: bytes, future: asyncio.Future[Any] | None
    ) -> None:
        name, args = pickle.loads(message)
        try:
            result, error = await self.answer(sender, name, args), None
        except OSError as caught:
            result, error = None, caught
        if future is None:
            assert error is None
            return
        answer = pickle.dumps((result, error))
        self._world.post(self.rank, sender, lambda: self._resolve(future, answer))

    def _resolve(self, future: asyncio.Future[Any], answer: bytes) -> None:
        result, error = pickle.loads(answer)
        if future.done() or self.is_lost(self.rank):
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    async def answer(self, sender: int, name: str, args: Sequence[Any]) -> Any:
        result = self._functions[name](sender, *args)
        return await result if inspect.isawaitable(result) else result


class FakeStore:
    """ObjectStore (objects/objects.py): all ranks' objects in one directory."""

    def __init__(self, directory: Path, rank: int) -> None:
        self._prefix = os.fsencode(directory) + b"/"
        self._last = rank << 40
        self.rank = rank
        self.slow: Callable[[], int] = lambda: 0
        self._first: dict[int, int] = {}

    follow, entry = ObjectStore.follow, ObjectStore.entry

    def forget(self, object_id: int) -> None:
        self._first.pop(object_id, None)

    def new_id(self) -> int:
        self._last += 1
        return self._last

    def path(self, object_id: int) -> bytes:
        return self._prefix + b"%x" % object_id

    def attr(self, object_id: int) -> Attr:
        return Attr.of(os.lstat(self.path(object_id)))

    def create(self, object_id: int, mode: int) -> Attr:
        os.mknod(self.path(object_id), 0o600)
        os.chmod(self.path(object_id), stat.S_IMODE(mode))
        return self.attr(object_id)

    async def copy(self, entry: Entry, object_id: int) -> None:
        for _ in range(self.slow()):
            await asyncio.sleep(0)
        data = Path(os.fsdecode(self.path(entry.object_id))).read_bytes()
        Path(os.fsdecode(self.path(object_id))).write_bytes(data)
        os.chmod(self.path(object_id), stat.S_IMODE(entry.attr.mode))

    async def local_path(self, entry: Entry) -> bytes:
        for _ in range(self.slow()):
            await asyncio.sleep(0)
        if not entry.is_file and entry.owner != self.rank:
            raise failure(errno.ENXIO)
        if entry.owner != self.rank:
            os.lstat(self.path(entry.object_id))
        return self.path(entry.object_id)

    async def change(self, object_id: int, changes: Changes) -> Attr:
        path = self.path(object_id)
        found = os.lstat(path)
        if changes.mode is not None:
            os.chmod(path, changes.mode)
        if changes.atime_ns is not None or changes.mtime_ns is not None:
            atime_ns = found.st_atime_ns if changes.atime_ns is None else changes.atime_ns
            mtime_ns = found.st_mtime_ns if changes.mtime_ns is None else changes.mtime_ns
            os.utime(path, ns=(atime_ns, mtime_ns))
        return Attr.of(os.lstat(path))

    async def truncate(self, object_id: int, size: int) -> None:
        os.truncate(self.path(object_id), size)

    def discard(self, object_id: int) -> None:
        self.forget(object_id)
        if os.path.lexists(self.path(object_id)):
            os.unlink(self.path(object_id))


@dataclass
class _Draft:
    object_id: int
    place: Place | None
    holders: set[int]


class FakeDrafts:
    """Drafts (drafts/drafts.py): finished when all its holders have settled."""

    def __init__(self, store: FakeStore) -> None:
        self.drafts: dict[int, _Draft] = {}
        self.publisher: Any = None
        self._store = store
        self._ending: dict[int, asyncio.Task[None]] = {}

    def at(self, place: Place) -> int | None:
        return next((i for i, draft in self.drafts.items() if draft.place == place), None)

    def find(self, place: Place, pid: int) -> int | None:
        found = self.at(place)
        return found if found is not None and pid in self.drafts[found].holders else None

    def within(self, mount: int, directory: bytes) -> list[_Draft]:
        return [
            draft for draft in self.drafts.values()
            if draft.place and (draft.place.mount, draft.place.directory) == (mount, directory)
        ]  # fmt: skip

    def place_of(self, object_id: int) -> Place | None:
        return self.drafts[object_id].place if object_id in self.drafts else None

    def begin(self, place: Place, object_id: int, pid: int) -> None:
        self.drafts[object_id] = _Draft(object_id, place, {pid})

    async def join(self, object_id: int, pid: int) -> bool:
        if object_id not in self.drafts or not await self._made(object_id):
            return False
        draft = self.drafts[object_id]
        if pid not in draft.holders and self._store.attr(object_id).size:
            return False
        draft.holders.add(pid)
        return True

    async def _made(self, object_id: int) -> bool:
        for _ in range(1000):
            if os.path.lexists(self._store.path(object_id)):
                return object_id in self.drafts
            await asyncio.sleep(0)
        return False

    def move(self, object_id: int, place: Place) -> None:
        if object_id in self.drafts:
            self.drafts[object_id].place = place

    def move_tree(self, mount: int, old: bytes, new: bytes) -> None:
        for draft in self.drafts.values():
            place = draft.place
            if place and (place.directory == old or place.directory.startswith(old + b"/")):
                draft.place = Place(mount, new + place.directory[len(old) :], place.name)

    def detach(self, object_id: int) -> None:
        if object_id in self.drafts:
            self.drafts[object_id].place = None

    async def look(self, object_id: int) -> None:
        with contextlib.suppress(OSError):
            await self._end_if_finished(object_id)

    async def _end_if_finished(self, object_id: int) -> None:
        draft = self.drafts.get(object_id)
        if draft is None or draft.holders:
            return
        if object_id not in self._ending:
            self._ending[object_id] = asyncio.create_task(self._end(object_id))
        await self._ending[object_id]

    async def _end(self, object_id: int) -> None:
        try:
            await self.publisher.publish(object_id, self._store.attr(object_id))
        except OSError:
            self._store.discard(object_id)
            raise
        finally:
            del self.drafts[object_id], self._ending[object_id]

    async def settle(self, pid: int, objects: Sequence[int]) -> bool:
        for object_id in objects:
            self.drafts[object_id].holders.discard(pid)
            await self._end_if_finished(object_id)
        return not any(object_id in self.drafts for object_id in objects)

    def hold(self, pid: int, objects: Sequence[int]) -> None:
        for object_id in objects:
            self.drafts[object_id].holders.add(pid)

    def hand_on(self, pid: int, objects: Sequence[int]) -> None:
        pass

    async def leave(self, pid: int, objects: Sequence[int]) -> None:
        await self.settle(pid, objects)

    async def abandon(self, pid: int, objects: Sequence[int]) -> None:
        for object_id in objects:
            await self.publisher.release(object_id)
            del self.drafts[object_id]

    async def kill(self, pid: int) -> None:
        """A process ends without a word: what it alone was writing is dropped."""
        for object_id, draft in list(self.drafts.items()):
            if draft.holders == {pid}:
                await self.publisher.release(object_id)
                del self.drafts[object_id]
                self._store.discard(object_id)


class FakeInputs:
    """interfaces.Inputs. tree: path to None (directory), bytes (file) or str (link's target)."""

    def __init__(self, prefix: bytes, tree: dict[bytes, bytes | str | None]) -> None:
        self.prefixes = [prefix]
        self.tree = {b"": None, **tree}
        self.asked: set[int] = set()

    def kind(self, path: bytes) -> str:
        if path not in self.tree:
            return "missing"
        found = self.tree[path]
        return "directory" if found is None else "link" if isinstance(found, str) else "file"

    def target(self, path: bytes) -> bytes:
        found = self.tree[path]
        assert isinstance(found, str)
        return found.encode()

    def record(self, path: bytes) -> int | None:
        return list(self.tree).index(path) if path in self.tree else None

    def touched(self, record: int) -> bool:
        return record in self.asked

    def touch(self, record: int) -> None:
        self.asked.add(record)


@dataclass
class Log:
    """interfaces.Observer."""

    seen: list[tuple[str, bytes]] = field(default_factory=list)

    def together(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def published(self, place: Place, entry: Entry) -> None:
        self.seen.append(("published", place.path))

    def changed(self, place: Place) -> None:
        self.seen.append(("changed", place.path))

    def moved(self, place: Place) -> None:
        self.seen.append(("moved", place.path))

    def stranded(self, place: Place, entry: Entry) -> None:
        self.seen.append(("stranded", place.path))

    def discarded(self, object_id: int) -> None:
        self.seen.append(("discarded", b"%x" % object_id))
