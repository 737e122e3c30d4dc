"""The C core of this node with its block cache. In a job of several ranks, the core owns MPI and
connects this rank to the others. Reports when reads wait for a rank or the shared file system."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from fanstore._native import ffi
from fanstore.config import Settings
from fanstore.messages.figures import NodeFigures
from fanstore.node.core import Node
from fanstore.node.objects import ObjectFetcher
from fanstore.rank_calls.connected import ConnectedPeers
from fanstore.startup import MpiWorld, World

LOOK_EVERY_S = 1.0
_TELL_AFTER_S = 2.0
_SHARED_TELL_AFTER_S = 10.0
_QUIET_S = 60.0  # the shortest time between two lines about one rank


class Stalls:
    """Remembers which lines were printed, and when, so that none is repeated too soon."""

    def __init__(self, deadline_s: float, shared_deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._shared_deadline_s = shared_deadline_s
        self._patience_s = min(_TELL_AFTER_S, deadline_s / 2)
        self._told_s: dict[tuple[str, int], float] = {}
        self.shared_words = "the shared file system"  # and what else is read like it
        self._away: set[int] = set()

    def lines(
        self,
        now_s: float,
        waits_for: tuple[int, float],
        late: set[int],
        lost: set[int],
        shared_waited_s: float = 0.0,
    ) -> list[str]:
        """Returns the lines to print now. waits_for: the rank that the oldest fetch under way asks,
        and that fetch's age in seconds. late: ranks that missed the deadline of a request; lost:
        ranks that are no longer asked. shared_waited_s: the age of the oldest read of the shared
        file system under way."""
        rank, waited_s = waits_for
        said = []
        if waited_s >= self._patience_s and self._may_tell("slow", rank, now_s):
            said.append(
                f"reads wait for rank {rank}, silent for {waited_s:.0f} s; after "
                f"{self._deadline_s:g} s (deadline_s) they go elsewhere"
            )
        patience_s = min(_SHARED_TELL_AFTER_S, self._shared_deadline_s / 2)
        if shared_waited_s >= patience_s and self._may_tell("shared", 0, now_s):
            said.append(
                f"reads wait for {self.shared_words}, silent for {shared_waited_s:.0f} s; after "
                f"{self._shared_deadline_s:g} s (shared_deadline_s) they fail"
            )
        gone = late | lost
        for each in sorted(gone - self._away):
            if self._may_tell("gone", each, now_s):
                self._away.add(each)
                said.append(
                    f"rank {each} does not answer: its packs are read from other ranks or the "
                    "shared file system"
                )
        said += [f"rank {each} answers again" for each in sorted(self._away - gone)]
        self._away &= gone
        return said

    def _may_tell(self, what: str, rank: int, now_s: float) -> bool:
        if now_s - self._told_s.get((what, rank), -_QUIET_S) < _QUIET_S:
            return False
        self._told_s[what, rank] = now_s
        return True


class NodeServer:
    """Fetches data from other ranks and from the shared file system, and serves this rank's packs
    to other ranks. Create it when this rank's segment is published; all ranks call `start`
    together."""

    def __init__(
        self,
        world: World,
        job_segment: str,
        cache_bytes: int,
        settings: Settings,
        objects: ObjectFetcher | None = None,
    ) -> None:
        """objects: None if no dataset is in a bucket. Raises FanstoreError if the block cache
        cannot be made."""
        self._world = world
        self._objects = objects
        self._deadline_s = settings.deadline_s
        self._stalls = Stalls(settings.deadline_s, settings.shared_deadline_s)
        self._stalls.shared_words += " or the bucket" if objects else ""
        self._lock = threading.Lock()  # guards `node`: any thread may ask for figures
        self._whole: bool | None = None
        self._last: tuple[Sequence[int], NodeFigures] | None = None
        self.node = Node(
            job_segment,
            world.rank,
            world.world_size,
            cache_bytes,
            settings.cache_policy,
            settings.deadline_s,
            settings.shared_deadline_s,
            objects,
        )

    def start(self) -> None:
        """Waits for all ranks, then starts the core. From then on MPI belongs to the core's
        thread."""
        if not isinstance(self._world, MpiWorld):
            self.node.start(ffi.NULL)
            return
        from fanstore.transport import open_transport

        transport = open_transport(self._world.comm, self._world.wait)
        self._world.gather_all("ready to serve")
        self.node.start(transport.pointer)

    def peers(self) -> ConnectedPeers | None:
        """Returns the object for calls between the daemons; None if there is only one daemon. The
        caller starts it once, and closes it before `stop`."""
        if self._world.world_size == 1:
            return None
        return ConnectedPeers(self._world.rank, self._world.world_size, self.node, self._deadline_s)

    def finish(self) -> int:
        """Tells the other ranks that this rank reads nothing more. Returns how many of them may
        still read."""
        return self.node.finish()

    def stall_lines(self) -> list[str]:
        """Returns the lines to print about reads that wait for a rank or the shared file system."""
        world_size = self._world.world_size
        late, waits_for = self.node.slow_ranks(world_size)
        lost = set(self.node.lost_ranks(world_size))
        shared_s = self.node.shared_waited_s()
        return self._stalls.lines(time.monotonic(), waits_for, late, lost, shared_s)

    def lost_ranks(self) -> Sequence[int]:
        """Returns the ranks that were lost. May be called from any thread."""
        with self._lock:
            return self._figures()[0]

    def figures(self) -> NodeFigures:
        """Returns the counts of the C core. May be called from any thread."""
        with self._lock:
            return self._figures()[1]

    def _figures(self) -> tuple[Sequence[int], NodeFigures]:
        """Returns the lost ranks and the counts of the core; after the core has ended, its last
        ones."""
        if self._last is not None:
            return self._last
        return self.node.lost_ranks(self._world.world_size), self.node.stats()

    def stop(self) -> bool:
        """Ends the core's thread. Returns whether MPI may be used again: True if no rank was lost
        and no operation of MPI is left under way."""
        with self._lock:
            if self._whole is None:
                if self._objects is not None:
                    self._objects.stop()
                quiet = self.node.stop()
                self._last = self._figures()
                self._whole = quiet and not self._last[0]
                self.node.close()
            return self._whole
