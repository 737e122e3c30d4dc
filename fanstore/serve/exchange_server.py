"""This rank's part in remote reads: the C core with its block cache, over the MPI transport."""

from __future__ import annotations

import time
from typing import Any

from fanstore.config import Settings
from fanstore.peers.connected import ConnectedPeers
from fanstore.serve.node import Node, default_cache_bytes
from fanstore.serve.stalls import Stalls
from fanstore.world import MpiWorld


class ExchangeServer:
    """Serves packs to other ranks and fetches from them. Opened when this rank's segment is
    published, started with those of all other ranks."""

    def __init__(self, world: MpiWorld, job_segment: str, settings: Settings) -> None:
        """Raises FanstoreError where the block cache cannot be made."""
        self._world = world
        self._deadline_s = settings.deadline_s
        self._stalls = Stalls(settings.deadline_s)
        self._whole: bool | None = None
        self._last: dict[str, Any] = {}
        self.node = Node(
            job_segment,
            world.rank,
            world.world_size,
            settings.cache_bytes or default_cache_bytes(),
            settings.cache_policy,
            settings.deadline_s,
        )

    def start(self) -> None:
        """Waits for all ranks. From then on MPI belongs to the core's thread."""
        from fanstore.transport import open_transport

        transport = open_transport(self._world.comm, self._world.wait)
        self._world.gather_all("ready to serve")
        self.node.start(transport.pointer)

    def peers(self) -> ConnectedPeers:
        """Returns the calls between the daemons; to be started once, and closed before `stop`."""
        return ConnectedPeers(self._world.rank, self._world.world_size, self.node, self._deadline_s)

    def finish(self) -> int:
        """Tells the others that this rank reads nothing more; returns how many of them still
        may."""
        return self.node.finish()

    def stall_lines(self) -> list[str]:
        """Returns what is to be said of ranks that others wait for, a line each."""
        world_size = self._world.world_size
        late, waits_for = self.node.slow_ranks(world_size)
        lost = set(self.node.lost_ranks(world_size))
        return self._stalls.lines(time.monotonic(), waits_for, late, lost)

    def figures(self) -> dict[str, Any]:
        """Returns the ranks that were lost, and the counts of the C core."""
        if self._whole is not None:
            return self._last
        return {
            "lost_ranks": self.node.lost_ranks(self._world.world_size),
            "node": self.node.stats(),
        }

    def stop(self) -> bool:
        """Ends the core's thread. Returns whether MPI may be used again: no rank was lost on the
        way."""
        if self._whole is None:
            quiet = self.node.stop()
            self._last = self.figures()
            self._whole = quiet and not self._last["lost_ranks"]
            self.node.close()
        return self._whole
