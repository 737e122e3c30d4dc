"""The outputs of one node while a job runs: a thread of its own, in which all parts of it live."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import os
import resource
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import FileIO
from typing import Any

from fanstore.dataset import Dataset
from fanstore.errors import SHOWN_MAX, FanstoreError
from fanstore.outputs.drafts.drafts import Drafts
from fanstore.outputs.model.entries import Place
from fanstore.outputs.model.interfaces import Inputs
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.model.segment import NameSegment
from fanstore.outputs.namespace.operations import Operations
from fanstore.outputs.objects.objects import ObjectStore
from fanstore.outputs.service.inputs import DatasetInputs, touched_bitmaps
from fanstore.outputs.service.listener import Listener
from fanstore.outputs.stageout.stageout import StageOut
from fanstore.peers.alone import Alone
from fanstore.peers.connected import ConnectedPeers
from fanstore.peers.interface import Peers

SOCKET = "outputs"
PIPE = "changes"
_WAIT_S = 10.0
_THREADS = 4
_ROUND_S = 0.005
_READ_BYTES = 1 << 12
_GARBAGE_AFTER = 50_000  # objects made and not freed
_CONNECTIONS_MOST = 512


@dataclass(frozen=True)
class Mount:
    """A dataset and where it is seen. prefixes: the mount prefix first, then other spellings."""

    dataset: Dataset
    prefixes: tuple[bytes, ...]


MakeStageOut = Callable[[Peers, NameTables, ObjectStore], StageOut]


class OutputService:
    """Starts once the job's segment is there, and is closed before the job's directory goes. Its
    methods are for one thread that is not the service's own, unless they say otherwise."""

    def __init__(
        self, directory: str, segment: str, listener: socket.socket, mounts: Sequence[Mount],
        make_stage_out: MakeStageOut, peers: ConnectedPeers | None = None,
        keep_partial: bool = False,
    ) -> None:  # fmt: skip
        """directory: the job's. listener: bound to SOCKET in it; closed with the service. peers:
        given where there are other ranks; not started yet. keep_partial: what killed programs were
        writing is kept, under names that say so."""
        self._directory = directory
        self._mounts = mounts
        self._make_stage_out = make_stage_out
        self._joined = peers
        self._keep_partial = keep_partial
        self._socket = listener
        self._segment = FileIO(segment, "r+")
        self._executor = ThreadPoolExecutor(_THREADS, "fanstore-outputs")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fanstore-outputs", daemon=True)
        self._unfinished: list[Place] = []
        self._parts = contextlib.ExitStack()
        self._listener: Listener | None = None
        self._closed = False

    def start(self) -> None:
        """Answers clients from now on. Raises FanstoreError or OSError; `close` must follow."""
        self._thread.start()
        self._do(self._open())

    def submit(self, work: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        """Runs a coroutine in the service's thread, where the peers live. May be called from any
        thread, until the service is closed."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def give_up(self) -> None:
        """Ends `flush`, and what `account` waits for: what is not placed by now is not. May be
        called from any thread."""
        self._loop.call_soon_threadsafe(self._stage_out.give_up)

    def figures(self) -> dict[str, Any]:
        """Returns counts for people; none before all has started. May be called from any
        thread."""
        if self._listener is None:
            return {}
        figures: dict[str, Any] = {**self._drafts.counts, "drafts": len(self._drafts)}
        figures["unfinished"] = [
            os.fsdecode(os.path.join(self._mounts[place.mount].prefixes[0], place.path))
            for place in self._unfinished[:SHOWN_MAX]
        ]
        return {**figures, **self._stage_out.figures()}

    def close(self) -> None:
        """Ends the thread, whatever it does; nothing is published any more."""
        if self._closed:
            return
        self._closed = True
        if self._thread.is_alive():
            with contextlib.suppress(FanstoreError, OSError):
                self._do(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_WAIT_S)
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._socket.close()
        if not self._thread.is_alive():
            self._loop.close()
            self._segment.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine in the service's thread. Raises FanstoreError when that takes too
        long."""
        future = self.submit(work)
        try:
            return future.result(_WAIT_S)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise FanstoreError("the daemon's thread for outputs does not answer") from None

    def _run(self) -> None:
        # What is known of names stays for as long as the job lasts: looking through all of it for
        # garbage, again and again, took a good part of the time in which programs are followed.
        gc.set_threshold(_GARBAGE_AFTER, 50, 100)
        self._loop.run_forever()

    async def _open(self) -> None:
        """Makes the parts, connects them and begins to answer."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        share = _CONNECTIONS_MOST if limit == resource.RLIM_INFINITY else max(8, limit // 4)
        segment = NameSegment()
        self._parts.callback(segment.close)
        peers: Peers = Alone() if self._joined is None else self._joined
        with contextlib.suppress(OSError):  # programs ask about each name then
            segment.open(self._directory, peers.rank, peers.world_size)
        store = ObjectStore(self._directory, peers, self._executor)
        self._drafts = drafts = Drafts(store, share)
        self._parts.callback(drafts.close)
        inputs: list[Inputs] = [
            DatasetInputs(mount.dataset, mount.prefixes, self._segment, touched_at)
            for mount, touched_at in zip(self._mounts, touched_bitmaps(self._segment), strict=True)
        ]
        self._operations = operations = Operations(peers, inputs, drafts, store, segment)
        self._stage_out = stage_out = self._make_stage_out(
            operations.peers, operations.name_tables, store
        )
        self._parts.callback(stage_out.close)
        operations.publisher.observer = stage_out
        store.on_discard = stage_out.discarded
        peers.serve("object.placed", lambda _, object_id: stage_out.placed_path(object_id))
        drafts.publisher, drafts.take = operations.publisher, operations.take_draft
        if self._keep_partial:
            drafts.keep = stage_out.drafted
        stage_out.start()
        if self._joined is not None:
            self._joined.start()
        self._parts.callback(operations.close)
        with contextlib.suppress(OSError):
            self._follow_changes(segment)
            operations.let()
        most = min(share, _CONNECTIONS_MOST)
        self._listener = Listener(
            self._socket, len(inputs), operations.run, most, segment, self._asked
        )
        self._parts.callback(self._listener.close)

    def _asked(self) -> None:
        self._operations.catch_up()
        self._stage_out.asked()

    def _follow_changes(self, segment: NameSegment) -> None:
        """Follows what programs change themselves (csrc/format/names_format.h). A program wakes
        this thread by a pipe; while changes keep coming nobody has to: they are followed a few
        times in each hundredth of a second. Raises OSError."""
        path = os.path.join(self._directory, PIPE)
        os.mkfifo(path, 0o600)
        pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._parts.callback(os.close, pipe)
        self._parts.callback(self._loop.remove_reader, pipe)
        timer: asyncio.TimerHandle | None = None

        def follow() -> None:
            nonlocal timer
            timer = None
            changed = self._operations.catch_up()
            if changed:
                self._stage_out.asked()
            if changed or not segment.sleep():
                timer = self._loop.call_later(_ROUND_S, follow)

        def wake() -> None:
            os.read(pipe, _READ_BYTES)
            if timer is None:
                follow()

        self._loop.add_reader(pipe, wake)
        follow()

    async def flush(self) -> None:
        """Publishes what is finished, and waits until it is placed or cannot be. For `submit`."""
        self._operations.settle()
        await self._drafts.flush()
        self._unfinished = self._drafts.places()
        await self._stage_out.flush()

    async def account(self, unstaged: str) -> dict[str, Any]:
        """Tells, at the end, what became of all outputs; those not placed are moved to `unstaged`.
        For `submit`."""
        # What a program writes on is nobody's any more: its close is not to succeed.
        assert self._listener is not None
        self._listener.close()
        self._operations.close()
        self._unfinished = self._drafts.places()
        self._drafts.close()
        account = await self._stage_out.account(unstaged, self._drafts.partials)
        return {**self.figures(), **account}

    async def _end(self) -> None:
        self._parts.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)
