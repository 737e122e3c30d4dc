"""Sets up a rank's parts for outputs of several ranks: the answers to its own programs and to the
other ranks."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from fanstore.outputs.model.entries import Identity
from fanstore.outputs.ranks.copies import Copies
from fanstore.outputs.ranks.listener import Listener
from fanstore.outputs.ranks.operations import Operations
from fanstore.outputs.ranks.trees import Trees
from fanstore.outputs.tree.inputs import Inputs
from fanstore.outputs.tree.shared import Shared
from fanstore.rank_calls.connected import ConnectedPeers

SOCKET = "outputs"  # in a job's directory; takes programs' requests
_SCRATCH = "scratch"
_COPIES = "copies"
_THREADS = 4
_CONNECTIONS_MOST = 512

Give = Callable[[bytes, Identity], bool]


class Ranks:
    """This rank's part in the outputs of all ranks. Everything runs in the thread for outputs."""

    def __init__(
        self,
        directory: str,
        listener: socket.socket,
        inputs: Sequence[Inputs],
        roots: Sequence[bytes],
        placed: Sequence[bytes],
        peers: ConnectedPeers,
    ) -> None:
        """directory: the job's. listener: bound to SOCKET in it; closed at the end. roots: the tree
        of each mount; placed: the directory of each mount's outputs in the output directory. peers:
        not started yet."""
        self._directory = directory
        self._socket = listener
        self._inputs = inputs
        self._roots = roots
        self._placed = placed
        self._peers = peers
        self._parts = contextlib.ExitStack()

    async def open(self, shared: Shared, give: Give) -> None:
        """Begins to answer. give: returns whether this rank placed the file with this name and
        identity in the output directory; the file then belongs to the asking rank. Raises
        OSError."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        share = _CONNECTIONS_MOST if limit == resource.RLIM_INFINITY else max(8, limit // 4)
        executor = ThreadPoolExecutor(_THREADS, "fanstore-outputs")
        self._parts.callback(executor.shutdown, wait=False, cancel_futures=True)
        scratch = os.path.join(self._directory, _SCRATCH)
        os.mkdir(scratch, 0o700)
        trees = Trees(
            self._peers.rank, self._roots, os.fsencode(scratch), shared,
            lambda mount, path: self._inputs[mount].kind(path) != "missing",
        )  # fmt: skip
        copies = Copies(os.path.join(self._directory, _COPIES), self._peers, executor)
        operations = Operations(self._peers, self._inputs, trees, copies, shared, self._placed)
        self._peers.serve("placed.give", lambda _, *args: give(*args))
        self._peers.start()
        most = min(share, _CONNECTIONS_MOST)
        listener = Listener(self._socket, len(self._inputs), operations.run, most)
        self._parts.callback(listener.close)

    async def take(self, name: bytes, identity: Identity) -> bool:
        """Asks the other ranks for the file placed under a name. Returns whether one of them had
        placed it, and gave it to this rank."""
        others = [rank for rank in range(self._peers.world_size) if rank != self._peers.rank]
        given = await self._peers.call_each(others, lambda _: ("placed.give", name, identity))
        return any(given)

    def is_lost(self, rank: int) -> bool:
        """Returns whether a rank is lost."""
        return self._peers.is_lost(rank)

    async def close(self) -> None:
        """Stops answering other ranks and programs."""
        self._parts.close()
        self._socket.close()
