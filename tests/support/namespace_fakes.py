"""What the namespace of outputs works with, as tests have it: calls between ranks in one loop
through queues with delays, inputs from a dictionary, a segment that is none."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import inspect
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fanstore.outputs.model.entries import failure
from fanstore.outputs.tree.inputs import Inputs
from fanstore.rank_calls.peers import Peers


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


class MemoryPeers(Peers):
    """The calls of one rank, which a World carries."""

    def __init__(self, world: World, rank: int) -> None:
        super().__init__(rank, world.size)
        self._world = world
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


class FakeInputs(Inputs):
    """The inputs of a mount, from a dictionary. tree: path to None (directory), bytes (file) or str
    (link's target)."""

    def __init__(self, prefix: bytes, tree: dict[bytes, bytes | str | None]) -> None:
        self.prefixes: Sequence[bytes] = [prefix]
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


class FakeShared:
    """The job's segment (tree/shared.py). written: what some process has open for writing."""

    def __init__(self) -> None:
        self.written: Counter[int] = Counter()

    def is_written(self, inode: int) -> bool:
        return self.written[inode] > 0

    def visit(self) -> None:
        pass

    def changed(self) -> None:
        pass

    def expect_links(self) -> None:
        pass

    def pointing(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def moving(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()
