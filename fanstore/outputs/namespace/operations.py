"""Puts the operations together: one coroutine for each kind of request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fanstore.outputs.drafts.drafts import Drafts
from fanstore.outputs.model.interfaces import Inputs, Observer
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.model.segment import NameSegment
from fanstore.outputs.model.wire import Answer, Op, Request, Where
from fanstore.outputs.namespace.attributes import Attributes
from fanstore.outputs.namespace.context import Context
from fanstore.outputs.namespace.following import Following
from fanstore.outputs.namespace.looking import Looking
from fanstore.outputs.namespace.moving import Moving
from fanstore.outputs.namespace.naming import Naming
from fanstore.outputs.namespace.opening import Opening
from fanstore.outputs.namespace.publishing import Publishing
from fanstore.outputs.namespace.truncating import Truncating
from fanstore.outputs.namespace.walk import Walker
from fanstore.outputs.objects.objects import ObjectStore
from fanstore.outputs.objects.versions import Versions
from fanstore.outputs.ranks.busy import Busy, ServingPeers
from fanstore.outputs.ranks.gate import Gate
from fanstore.outputs.ranks.home_client import HomeClient
from fanstore.outputs.ranks.home_server import HomeServer
from fanstore.peers.interface import Peers

_Step = Callable[[Request], Awaitable[Answer]]


class Operations:
    """The namespace of one rank: its name tables, and its clients' operations on those of all
    ranks. `name_tables`, `publisher` and `peers` are for the other parts of the outputs: what these
    serve is answered once all that programs did is followed."""

    def __init__(
        self,
        peers: Peers,
        inputs: Sequence[Inputs],
        drafts: Drafts,
        store: ObjectStore,
        observer: Observer,
        segment: NameSegment | None = None,
    ) -> None:
        segment = segment or NameSegment()
        self._busy = busy = Busy(self._note_busy)
        self.peers = ServingPeers(peers, self._caught_up)
        peers = ServingPeers(peers, busy.during)
        self.name_tables = NameTables(segment)
        self.home_server = HomeServer(self.name_tables, peers, inputs)
        homes, gate = HomeClient(peers), Gate(peers, segment.freeze, busy)
        versions = Versions(store)
        walker = Walker(inputs, homes, gate, drafts, versions)
        self._context = Context(
            peers, inputs, homes, gate, drafts, store, versions, observer, walker
        )
        self.publisher = Publishing(self._context)
        self._drafts = drafts
        self._segment = segment
        self._following = Following(
            peers.rank, segment, self.name_tables, drafts, store, self.publisher, observer,
            self.home_server,
        )  # fmt: skip
        self._lets = False
        self._alone, self._passing = self._steps()
        self._running: set[asyncio.Task[Answer]] = set()

    def _steps(self) -> tuple[dict[int, _Step], dict[int, _Step]]:
        """Returns the operations that pass the gate where it suits them, and those that pass it as
        a whole."""
        truncating = Truncating(self._context, self.publisher)
        naming = Naming(self._context, self.publisher)
        attributes = Attributes(self._context, self.publisher)
        looking = Looking(self._context)
        alone: dict[int, _Step] = {
            Op.OPEN: Opening(self._context, self.publisher, truncating).open,
            Op.RENAME: Moving(self._context).rename,
            Op.SETTLE: self._settle,
            Op.HOLD: self._hold,
            Op.HAND_ON: self._hand_on,
            Op.LEAVE: self._leave,
            Op.ABANDON: self._abandon,
        }
        passing: dict[int, _Step] = {
            Op.LOOKUP: looking.lookup,
            Op.LIST: looking.list,
            Op.NAME: looking.name,
            Op.MKDIR: naming.mkdir,
            Op.MKNOD: naming.mknod,
            Op.SYMLINK: naming.symlink,
            Op.LINK: naming.link,
            Op.UNLINK: naming.unlink,
            Op.RMDIR: naming.rmdir,
            Op.CHANGE: attributes.change,
            Op.REFRESH: attributes.refresh,
            Op.TRUNCATE: truncating.truncate,
        }
        return alone, passing

    def _note_busy(self, busy: bool) -> None:
        """Has programs change nothing themselves while operations are under way."""
        if busy:
            self._segment.hold()
            self.catch_up()
        elif self._lets:
            self._segment.let()

    def catch_up(self) -> bool:
        """Follows what programs changed themselves; tells whether there was anything."""
        return self._following.catch_up()

    def _caught_up(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def after_all_changes(*args: Any) -> Any:
            self.catch_up()
            return function(*args)

        return after_all_changes

    def settle(self) -> None:
        """Follows all that programs did, waiting for what other ranks are about to do for them."""
        self._busy.enter()
        self._busy.leave()

    def take_draft(self, object_id: int) -> None:
        """Does what Drafts.take says: another rank may be publishing it at this moment."""
        self._segment.take_draft(object_id)
        self.settle()

    def let(self) -> None:
        """Lets programs change names themselves while no operation is under way; whoever calls this
        calls `catch_up` when they did."""
        self._lets = True
        self._note_busy(False)

    def close(self) -> None:
        """Has programs change nothing themselves from now on."""
        self._lets = False
        self._note_busy(True)

    async def run(self, request: Request) -> Answer:
        """Does what a client asks. Raises OSError. Goes on to its end when the caller is cancelled:
        a name is never left half way."""
        return await asyncio.shield(self.start(request))

    def start(self, request: Request) -> asyncio.Task[Answer]:
        """Begins what `run` does, for a caller that hears of the end. The task must not be
        cancelled."""
        task = asyncio.get_running_loop().create_task(self._run(request))
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Answer]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left to look at it

    async def _run(self, request: Request) -> Answer:
        step = self._alone.get(request.op)
        if step is not None:
            return await step(request)
        async with self._context.gate.passage():
            return await self._passing[request.op](request)

    async def _settle(self, request: Request) -> Answer:
        settled = await self._drafts.settle(request.pid, request.objects)
        return Answer(Where.SETTLED if settled else Where.OPEN_YET)

    async def _hold(self, request: Request) -> Answer:
        self._drafts.hold(request.pid, request.objects)
        return Answer(Where.DONE)

    async def _hand_on(self, request: Request) -> Answer:
        self._drafts.hand_on(request.pid, request.objects)
        return Answer(Where.DONE)

    async def _leave(self, request: Request) -> Answer:
        await self._drafts.leave(request.pid, request.objects)
        return Answer(Where.DONE)

    async def _abandon(self, request: Request) -> Answer:
        await self._drafts.abandon(request.pid, request.objects)
        return Answer(Where.DONE)
