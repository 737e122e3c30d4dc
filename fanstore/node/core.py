"""The node daemon's C core (csrc/node): the block cache and the answers to other ranks."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fanstore._native import check, ffi, lib
from fanstore.config import CACHE_LEAST_BYTES
from fanstore.errors import FanstoreError, UsageError
from fanstore.messages.figures import NodeFigures
from fanstore.messages.message import fields_of
from fanstore.staging import locks

if TYPE_CHECKING:
    from fanstore.node.objects import ObjectFetcher
    from fanstore.staging.shares import Shares

_IDLE_SLEEP_US = 4000  # in an idle daemon, the longest wait of another rank's request
_MESSAGE_ROOM_BYTES = 1 << 16


def empty_if_ended(cache_fd: int) -> bool:
    """Frees the memory of another daemon's block cache once that daemon has ended, because idle
    programs keep it mapped. Returns whether it has ended."""
    if not locks.try_lock(cache_fd, exclusive=True):
        return False
    with contextlib.suppress(OSError, ValueError), mmap.mmap(cache_fd, 0) as memory:
        with ffi.from_buffer("struct fan_cache_header *", memory) as header:
            header.state = lib.FAN_JOB_ENDED
            sessions, entries = header.sessions_offset, header.entries_offset
            data, end = header.data_offset, header.segment_bytes
        # Others may still read. In this order nobody finds an entry any more when pins are cleared,
        # and nobody holds a pin, which is looked at after each copy, when content is cleared.
        for first, after in ((entries, data), (sessions, entries), (data, end)):
            memory.madvise(mmap.MADV_REMOVE, first, after - first)
    return True


class Node:
    """The node daemon's C core. Open it after staging, start it once every rank is ready, and stop
    it when no rank needs it any more."""

    def __init__(
        self,
        job_segment: str,
        rank: int,
        world_size: int,
        cache_bytes: int,
        policy: str,
        deadline_s: float,
        shared_deadline_s: float,
        objects: ObjectFetcher | None = None,
    ) -> None:
        """objects: None if no dataset is in a bucket. Raises FanstoreError if the cache cannot be
        made."""
        self._path = ffi.new("char[]", os.fsencode(job_segment))
        options = ffi.new(
            "struct fan_node_options *",
            {
                "job_segment": self._path,
                "cache_bytes": cache_bytes,
                "deadline_ns": int(deadline_s * 1e9),
                "shared_deadline_ns": int(shared_deadline_s * 1e9),
                "policy": getattr(lib, f"FAN_POLICY_{policy.upper()}"),
                "rank": rank,
                "world_size": world_size,
                "idle_sleep_us": _IDLE_SLEEP_US,
                "fetch_object": objects.pointer if objects else ffi.NULL,
            },
        )
        out = ffi.new("struct fan_node **")
        rc = lib.fan_node_open(options, out)
        if rc == -errno.EINVAL and cache_bytes < CACHE_LEAST_BYTES:
            raise UsageError(f"a block cache of {cache_bytes:,} bytes is too small: 10 MiB will do")
        if rc < 0:
            raise FanstoreError(f"a block cache of {cache_bytes:,} bytes: {os.strerror(-rc)}")
        self._node = out[0]
        # The descriptor that others get is another one, so this lock is held until this one ends.
        self._lock_fd = os.open(f"/proc/self/fd/{self.cache_fd}", os.O_RDONLY | os.O_CLOEXEC)
        locks.try_lock(self._lock_fd, exclusive=True)
        self._room = bytearray(_MESSAGE_ROOM_BYTES)
        self._sender = ffi.new("uint32_t *")
        self._needed = ffi.new("uint64_t *")
        self._slow_rank = ffi.new("uint32_t *")

    def set_replicas(self, mount: int, pack: int, ranks: Sequence[int]) -> None:
        """Tells the core which other ranks have a copy of a pack."""
        check(lib.fan_node_set_replicas(self._node, mount, pack, list(ranks), len(ranks)))

    def set_share(self, mount: int, shares: Shares) -> None:
        """Tells the core what each rank keeps of packs that are only in part on the local disks,
        and how much this rank may keep beyond that. Call it before `start`. Raises OSError."""
        bounds, memory = list(shares.bounds), list(shares.memory_bounds)
        largest, copies = shares.largest_bytes, shares.copy_bytes
        check(lib.fan_node_set_share(self._node, mount, bounds, largest, memory, copies))

    def fill_ahead(self, mount: int, records: Any) -> None:
        """Brings records of this rank's share, an array of ids, to the local disk in that order
        while programs read. Raises OSError."""
        ids = ffi.from_buffer("uint64_t[]", records.astype("uint64"))
        check(lib.fan_node_fill_ahead(self._node, mount, ids, len(ids)))

    def fill_first(self, mount: int, records: Sequence[int]) -> int:
        """Brings records to the local disk before all those of `fill_ahead`; returns a number for
        `is_filling`. Raises OSError."""
        return check(lib.fan_node_fill_first(self._node, mount, list(records), len(records)))

    def is_filling(self, number: int) -> bool:
        """Returns whether records of the call of `fill_first` that returned `number` are still
        being brought."""
        return bool(lib.fan_node_is_filling(self._node, number))

    def reach(self, mount: int, records: Sequence[int], blocks: Sequence[int]) -> list[int]:
        """Brings blocks near as a hint would; records and blocks are of equal length. Returns where
        each block is now, an enum fan_reach."""
        reached = ffi.new("uint32_t[]", len(records))
        lib.fan_node_reach(self._node, mount, list(records), list(blocks), len(records), reached)
        return list(reached)

    def begin_order(self, mount: int, records: bytes, behind: int = 0) -> int:
        """Brings records, ids of 64 bits each, in that order before they are read, but after those
        of the order `behind`. Returns the number of the new order. Raises OSError."""
        ids = ffi.from_buffer("uint64_t[]", records)
        return check(lib.fan_node_order_begin(self._node, mount, ids, len(ids), behind))

    def pass_order(self, order: int, position: int, read: int) -> None:
        """Reports how far the loader is in an order: it is past the first `position` records, and
        has read `read` records in all."""
        check(lib.fan_node_order_read(self._node, order, read))
        check(lib.fan_node_order_pass(self._node, order, position))

    def end_order(self, order: int) -> None:
        """Reports that nothing more of an order will be read, so that nothing more is fetched for
        it."""
        check(lib.fan_node_order_end(self._node, order))

    def start(self, transport: Any) -> None:
        """Starts the core's thread. The transport, and MPI with it, belong to that thread from now
        on."""
        check(lib.fan_node_start(self._node, transport))

    def grow(self, content_bytes: int) -> None:
        """Makes the block cache larger, by room for so many bytes, or as far as it may grow."""
        lib.fan_node_grow(self._node, content_bytes)

    @property
    def cache_fd(self) -> int:
        """The descriptor of the memory file that clients map."""
        return int(lib.fan_node_cache_fd(self._node))

    def begin_session(self, pid: int) -> int | None:
        """Returns a session number for a client that has connected; None if there is no room
        for one."""
        session = int(lib.fan_node_session_begin(self._node, pid))
        return session if session >= 0 else None

    def end_session(self, session: int) -> None:
        """Ends a client's session, and releases every block that the client held."""
        lib.fan_node_session_end(self._node, session)

    def finish(self) -> int:
        """Tells the other ranks that this rank reads nothing more. Returns how many ranks may still
        read."""
        return int(lib.fan_node_finish(self._node))

    def post(self, rank: int, data: bytes) -> None:
        """Sends a message to another rank, after everything sent to it before. May be called from
        any thread. Raises OSError: EREMOTEIO if that rank is lost, ESHUTDOWN if this one has
        stopped."""
        check(lib.fan_node_post(self._node, rank, data, len(data)))

    def take(self) -> tuple[int, bytes] | None:
        """Returns the sender and content of the next message from another rank, or None. Only one
        thread may call it, while the node is open."""
        count = self._take()
        if count == -errno.ENOBUFS:
            self._room = bytearray(self._needed[0])
            count = self._take()
        if count == -errno.EAGAIN:
            return None
        return self._sender[0], bytes(memoryview(self._room)[: check(count)])

    def _take(self) -> int:
        room = ffi.from_buffer(self._room)
        return int(lib.fan_node_take(self._node, room, len(self._room), self._sender, self._needed))

    @property
    def message_fd(self) -> int:
        """A descriptor that is readable while `take` has a message to return."""
        return int(lib.fan_node_message_fd(self._node))

    def is_lost(self, rank: int) -> bool:
        """Returns whether a rank has died or no longer answers."""
        return bool(lib.fan_node_is_lost(self._node, rank))

    def lose(self, rank: int) -> None:
        """Makes a rank count as lost from now on."""
        lib.fan_node_lose(self._node, rank)

    def lost_ranks(self, world_size: int) -> list[int]:
        """Returns the ranks that no longer answer."""
        return [rank for rank in range(world_size) if self.is_lost(rank)]

    def slow_ranks(self, world_size: int) -> tuple[set[int], tuple[int, float]]:
        """Returns the ranks that missed their last deadline, and (rank, seconds) of the oldest
        fetch under way."""
        late = {rank for rank in range(world_size) if lib.fan_node_is_late(self._node, rank)}
        waited_ns = int(lib.fan_node_waited_ns(self._node, self._slow_rank))
        return late, (int(self._slow_rank[0]), waited_ns / 1e9)

    def shared_waited_s(self) -> float:
        """Returns how long the oldest read of the shared file system under way has taken; 0 if
        there is none."""
        return float(lib.fan_node_shared_waited_ns(self._node)) / 1e9

    def stats(self) -> NodeFigures:
        """Returns the core's counts since it started."""
        stats = ffi.new("struct fan_node_stats *")
        lib.fan_node_stats(self._node, stats)
        counts = {name: getattr(stats, name) for name in fields_of(NodeFigures)}
        return NodeFigures(**{**counts, "latency_bins": list(stats.latency_bins)})

    def stop(self) -> bool:
        """Ends the core's thread. Returns True if no operation of MPI is outstanding, so that MPI
        can be finalised."""
        return int(lib.fan_node_stop(self._node)) == 0

    def close(self) -> None:
        """Frees the core, and the transport with it."""
        lib.fan_node_close(self._node)
        self._node = ffi.NULL
        os.close(self._lock_fd)
