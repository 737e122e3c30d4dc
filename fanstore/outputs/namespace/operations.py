"""Puts the operations together: one coroutine for each kind of request."""

from __future__ import annotations

import contextlib
import errno
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fanstore.outputs.drafts.drafts import Drafts
from fanstore.outputs.model.entries import failure
from fanstore.outputs.model.interfaces import Inputs
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.model.segment import NameSegment
from fanstore.outputs.model.wire import Answer, Op, Request, Where
from fanstore.outputs.namespace import attributes, moving, naming, opening
from fanstore.outputs.namespace.context import DONE, Context, Outside
from fanstore.outputs.namespace.following import Following
from fanstore.outputs.objects.objects import ObjectStore
from fanstore.outputs.ranks.gate import Busy, Gate, ServingPeers
from fanstore.outputs.ranks.homes import HomeClient, HomeServer
from fanstore.peers.interface import Peers

TRIES = 100  # how often an operation begins anew because a name changed meanwhile
_ALONE = (Op.OPEN, Op.TRUNCATE, Op.RENAME)  # these pass the gate where it suits them

_Step = Callable[[Context, Request], Awaitable[Answer | None]]


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
        segment: NameSegment | None = None,
    ) -> None:
        self._segment = segment = segment or NameSegment()
        self._busy = busy = Busy(self._note_busy)
        self.peers = ServingPeers(peers, self._caught_up)
        peers = ServingPeers(peers, busy.during)
        self.name_tables = NameTables(segment)
        self.home_server = HomeServer(self.name_tables, peers, inputs)
        homes, gate = HomeClient(peers), Gate(peers, segment.freeze, busy)
        self.publisher = Context(peers, inputs, homes, gate, drafts, store)
        self._following = Following(self.publisher, self.home_server)
        self._lets = False
        self._steps: dict[int, _Step] = {
            Op.LOOKUP: attributes.lookup,
            Op.LIST: attributes.listing,
            Op.NAME: attributes.name_of,
            Op.OPEN: opening.open_file,
            Op.TRUNCATE: opening.truncate,
            Op.RENAME: moving.rename,
            Op.MKDIR: naming.mkdir,
            Op.MKNOD: naming.mknod,
            Op.SYMLINK: naming.symlink,
            Op.LINK: naming.link,
            Op.UNLINK: naming.unlink,
            Op.RMDIR: naming.rmdir,
            Op.CHANGE: attributes.change,
            Op.REFRESH: attributes.refresh,
        }
        # What processes say of the drafts that they have.
        self._said: dict[int, Callable[[int, Sequence[int]], Any]] = {
            Op.SETTLE: drafts.settle,
            Op.HOLD: drafts.hold,
            Op.HAND_ON: drafts.hand_on,
            Op.LEAVE: drafts.leave,
            Op.ABANDON: drafts.abandon,
        }

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
        with self._busy:
            pass

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
        """Does what a client asks. Raises OSError. Must not be cancelled before the service ends: a
        name would be left half way."""
        if request.op in self._said:
            return await self._hear(request)
        gate, step = self.publisher.gate, self._steps[request.op]
        try:
            for _ in range(TRIES):
                alone = request.op in _ALONE
                async with contextlib.nullcontext() if alone else gate.passage():
                    answer = await step(self.publisher, request)
                if answer is not None:
                    return answer
        except Outside as way:
            return Answer(Where.ELSEWHERE, text=way.text)
        raise failure(errno.EIO, request.path)

    async def _hear(self, request: Request) -> Answer:
        settled = self._said[request.op](request.pid, request.objects)
        if inspect.isawaitable(settled):
            settled = await settled
        if request.op != Op.SETTLE:
            return DONE
        return Answer(Where.SETTLED if settled else Where.OPEN_YET)
