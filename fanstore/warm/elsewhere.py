"""Asks the node daemon to fetch data that is not on this node's disk, and waits until it has
come."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from fanstore._native import lib
from fanstore.job.jobs import FoundJob, ask
from fanstore.messages.requests import (
    AskKeeping,
    BringNear,
    Keeping,
    KeepingState,
    KeepRecords,
    ListMounts,
    MountList,
    Reached,
)
from fanstore.warm.mounts import Mount
from fanstore.warm.tally import Count

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK_BYTES = int(lib.FAN_CACHE_BLOCK_BYTES)
_WINDOW = 128  # blocks in one request: half of the daemon's queue of hints
_TRIES = 3  # how often the daemon may begin to fetch a block before this gives up
_KEEP_RECORDS = 1024
_KEEP_BYTES = 64 << 20
# between two requests while nothing comes: the first pause, and the longest
_PAUSE_S = (0.002, 0.05)

_WAITING = (lib.FAN_REACH_COMING, lib.FAN_REACH_BEGUN, lib.FAN_REACH_LATER)


class _Pause:
    """The pause between two requests. It grows while nothing comes."""

    def __init__(self) -> None:
        self._next_s = _PAUSE_S[0]

    def wait(self, came: bool) -> None:
        """Sleeps before the next request, each time twice as long up to a limit. If `came` is true,
        something came: returns at once and resets the pause."""
        if came:
            self._next_s = _PAUSE_S[0]
            return
        time.sleep(self._next_s)
        self._next_s = min(2 * self._next_s, _PAUSE_S[1])


class _Block:
    """A block that is to come. begun: how often the daemon has begun to fetch it."""

    def __init__(self, record: int, number: int, amount_bytes: int) -> None:
        self.record = record
        self.number = number
        self.bytes = amount_bytes
        self.begun = 0
        self.seen = False  # whether it was not on this node when first asked for


class Bringing:
    """Fetches records of one mount to this node."""

    def __init__(self, job: FoundJob, mount: Mount, count: Count) -> None:
        self._job = job
        self._mount = mount
        self._count = count
        self._sizes = mount.dataset.records["stored_size"]
        self._to_keep: dict[int, None] = {}
        self._on_disk: dict[int, None] = {}
        self._dropped = self._dropped_before = ask(job, ListMounts(), MountList).dropped

    def bring(self, records: NDArray[Any]) -> list[int]:
        """Fetches records to the disk or the block cache. Returns the records that were on the disk
        before; they are not counted. Raises FanstoreError if the daemon does not answer."""
        self._through_cache(self._blocks(records))
        keep, self._to_keep = list(self._to_keep), {}
        for batch in self._batches(keep):
            self._to_disk(batch)
        return list(self._on_disk)

    def _blocks(self, records: Sequence[int] | NDArray[Any]) -> Iterator[_Block]:
        for record in map(int, records):
            size = int(self._sizes[record])
            for start in range(0, size, _BLOCK_BYTES):
                if record not in self._to_keep and record not in self._on_disk:
                    left = min(_BLOCK_BYTES, size - start)
                    yield _Block(record, start // _BLOCK_BYTES, left)

    def _through_cache(self, blocks: Iterator[_Block]) -> None:
        waiting: list[_Block] = []
        pause = _Pause()
        while True:
            waiting += islice(blocks, _WINDOW - len(waiting))
            if not waiting:
                return
            answers = self._reach(waiting)
            left = [
                block for block, where in zip(waiting, answers, strict=True)
                if self._is_left(block, where)
            ]  # fmt: skip
            pause.wait(len(left) < len(waiting))
            waiting = left

    def _reach(self, blocks: Sequence[_Block]) -> Sequence[int]:
        wanted = BringNear(
            mount=self._mount.number,
            records=[block.record for block in blocks],
            blocks=[block.number for block in blocks],
        )
        answer = ask(self._job, wanted, Reached)
        self._dropped = answer.dropped
        return answer.reached

    def _is_left(self, block: _Block, where: int) -> bool:
        """Returns whether a block is still on its way; counts it if not. where: an enum
        fan_reach."""
        block.begun += where == lib.FAN_REACH_BEGUN
        if where in _WAITING and block.begun <= _TRIES:
            block.seen = True
            return True
        if where == lib.FAN_REACH_DISK:
            self._on_disk[block.record] = None
        elif where == lib.FAN_REACH_TO_KEEP:
            self._to_keep[block.record] = None
        else:
            self._count.add(self._became(block, where), block.bytes)
        return False

    def _became(self, block: _Block, where: int) -> str:
        """Returns the field of the tally for a block that is no longer on its way. The daemon does
        not say why a block did not come, but it counts hints for which the cache had no room."""
        if where == lib.FAN_REACH_CACHED:
            return "to_cache" if block.seen else "there"
        dropped = where in _WAITING and self._dropped > self._dropped_before
        return "no_room" if dropped or where == lib.FAN_REACH_NO_ROOM else "failed"

    def _batches(self, records: Sequence[int]) -> Iterator[list[int]]:
        batch: list[int] = []
        room = _KEEP_BYTES
        for record in records:
            batch.append(record)
            room -= int(self._sizes[record])
            if len(batch) == _KEEP_RECORDS or room <= 0:
                yield batch
                batch, room = [], _KEEP_BYTES
        if batch:
            yield batch

    def _to_disk(self, records: list[int]) -> None:
        """Copies records of this node's share to its disk. Records that the disk does not take go
        to the cache."""
        mount = self._mount.number
        keeping = ask(self._job, KeepRecords(mount=mount, records=records), Keeping)
        pause = _Pause()
        while ask(self._job, AskKeeping(number=keeping.number), KeepingState).goes_on:
            pause.wait(False)
        first = [_Block(record, 0, int(self._sizes[record])) for record in records]
        again: list[int] = []
        for start in range(0, len(first), _WINDOW):
            part = first[start : start + _WINDOW]
            for block, where in zip(part, self._reach(part), strict=True):
                if where == lib.FAN_REACH_DISK:
                    self._count.add("to_disk", block.bytes)
                elif where in (lib.FAN_REACH_TO_KEEP, lib.FAN_REACH_NOWHERE):
                    self._count.add("failed", block.bytes)
                else:
                    again.append(block.record)
        self._through_cache(self._blocks(again))
