"""Packs content in a pipeline: worker threads read and compress units, and the calling thread
writes them in order.

The number of workers does not change the output. At most jobs + 2 units are in memory at once."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fanstore._native import lib
from fanstore.arrays import np
from fanstore.prepare.codecs import Codec
from fanstore.prepare.encode import Encoded, Encoder, LargeFile
from fanstore.prepare.packfile import PackFile, Stored, pack_header
from fanstore.prepare.plan import (
    UNIT_BYTES,
    UNIT_FILES,
    Order,
    PackPlan,
    Unit,
    piece_bytes_for,
    reading_order,
    units,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.prepare.journal import Journal
    from fanstore.prepare.source import PackSource

_ALIGN: int = lib.FAN_DATA_ALIGN_BYTES
_MAP_ALIGN: int = lib.FAN_MAP_ALIGN_BYTES
_MAP_THRESHOLD: int = lib.FAN_MAP_THRESHOLD_BYTES
_HANDOVER_S = 0.0005

# Called with the logical bytes of each unit after it is written.
Progress = Callable[[int], None]


@contextmanager
def _quick_handover() -> Iterator[None]:
    """Makes the interpreter switch threads within 0.5 ms, so that workers that return from a read
    wait less for the calling thread: the default of 5 ms is longer than reading a unit takes."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_HANDOVER_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _buffer_bytes(block_bytes: int) -> int:
    """Returns the size of a buffer that holds any unit: a piece, or whole files with their
    padding: less than two pages for a file that can be mapped, and _ALIGN bytes for any other."""
    padding = UNIT_BYTES // _MAP_THRESHOLD * 2 * _MAP_ALIGN + UNIT_FILES * _ALIGN
    return max(UNIT_BYTES + padding, piece_bytes_for(block_bytes))


class Packer:
    """Writes all packs of a plan to `directory`. A context manager."""

    def __init__(
        self, source: PackSource, plan: PackPlan, plan_id: bytes, codec: Codec, block_bytes: int,
        directory: Path, journal: Journal | None,
    ) -> None:  # fmt: skip
        self.stored = Stored(len(source.tree), source.tree.room)
        self.failed: dict[int, str] = {}
        self.packs: dict[int, PackFile] = {}
        self._encoder = Encoder(source, codec, block_bytes)
        self._plan = plan
        self._journal = journal
        self._sizes = source.tree.entries["size"]
        self._directory = directory
        self._large: LargeFile | None = None
        self._spare: list[memoryview] = []
        for pack in plan.written:
            flags = plan.flags(pack)
            header = pack_header(plan_id, pack, plan.pack_count, block_bytes, flags)
            self.packs[pack] = PackFile(directory, pack, header, flags)
            self.packs[pack].close()
        self._current = self.packs[plan.first]
        self._started = False
        self._taken_up: list[int] = []

    def __enter__(self) -> Packer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._large is not None:
            self._large.close()
        self._current.close()

    def take_up(self) -> list[int]:
        """Reuses the packs that a killed run had completed and returns their numbers; `run` does
        not write them."""
        if self._journal is not None:
            for number, pack in self.packs.items():
                ids = self._by_pack.of_pack(number)
                if len(ids) and self._journal.take_up(pack, ids, self.stored):
                    self._taken_up.append(number)
        return self._taken_up

    @cached_property
    def _by_pack(self) -> Order:
        """The entries to read, ordered by pack."""
        return reading_order(self._encoder.source.tree, self._plan, sequential=False)

    def _complete(self) -> None:
        """Closes the current pack. Records it as complete if all of its files could be read."""
        self._current.close()
        if self._journal is None:
            return
        pack = self._current.pack
        if not any(self._plan.packs[number] == pack for number in self.failed):
            self._journal.note(self._current, self._by_pack.of_pack(pack), self.stored)

    def run(self, jobs: int, progress: Progress) -> None:
        """Packs everything. Afterwards `failed` holds the entries that could not be read."""
        waiting: deque[tuple[Unit, memoryview, Future[Encoded]]] = deque()
        with _quick_handover(), ThreadPoolExecutor(jobs, "fanstore-prepare") as pool:
            try:
                source = self._encoder.source
                order = self._unread(progress)
                for unit in units(source.tree, order, self._plan, self._encoder.block_bytes):
                    if len(waiting) == jobs + 1:
                        progress(self._take(*waiting.popleft()))
                    waiting.append(self._submit(pool, unit))
                while waiting:
                    progress(self._take(*waiting.popleft()))
                if len(order):
                    self._complete()
            finally:
                for _, _, future in waiting:
                    future.cancel()

    def _unread(self, progress: Progress) -> NDArray[np.int64]:
        """Returns the entries to read in order, without those in reused packs."""
        source = self._encoder.source
        if source.sequential:  # such a source has no journal
            return self._plan.content
        order, room = self._by_pack.ids, source.tree.room
        if not self._taken_up:
            return order
        unread = room.zeros(len(order), bool)
        for part in room.pieces(len(order)):
            done = np.isin(self._plan.packs[order[part]], self._taken_up)
            progress(int(self._sizes[order[part][done]].sum()))
            unread[part] = ~done
        return room.kept(order, unread)

    def _submit(
        self, pool: ThreadPoolExecutor, unit: Unit
    ) -> tuple[Unit, memoryview, Future[Encoded]]:
        if not self._spare:
            self._spare.append(np.empty(_buffer_bytes(self._encoder.block_bytes), "u1").data)
        whole = self._spare.pop()
        buffer = whole[: unit.buffer_bytes]
        sizes = self._sizes[list(unit.ids)].tolist()
        failed = self._encoder.read(unit, buffer) if self._encoder.source.sequential else None
        return unit, whole, pool.submit(self._encoder.encode, unit, sizes, buffer, failed)

    def _take(self, unit: Unit, buffer: memoryview, future: Future[Encoded]) -> int:
        """Writes one unit to its pack. Returns its logical bytes."""
        encoded = future.result()
        self.failed.update(encoded.failed)
        if self.packs[unit.pack] is not self._current:
            if self._started:
                self._complete()
            self._current = self.packs[unit.pack]
        self._started = True
        if unit.piece_bytes:
            self._write_piece(unit, encoded)
            done = unit.piece_bytes
        else:
            self._write_files(unit, encoded)
            done = int(self._sizes[list(unit.ids)].sum())
        self._spare.append(buffer)
        return done

    def _write_files(self, unit: Unit, encoded: Encoded) -> None:
        small = len(encoded.payload) < _MAP_THRESHOLD  # holds no file that must be aligned for mmap
        base = self._current.append(encoded.payload, _ALIGN if small else _MAP_ALIGN)
        ids = list(unit.ids)
        stored = self.stored
        stored.offset[ids] = np.asarray(encoded.offsets, np.uint64) + np.uint64(base)
        stored.stored_size[ids] = encoded.stored
        stored.checksum[ids] = encoded.checksums
        stored.codec[ids] = encoded.codecs

    def _write_piece(self, unit: Unit, encoded: Encoded) -> None:
        number = unit.ids[0]
        if unit.start == 0:
            self._large = LargeFile(
                self._current, self._encoder.codec, int(self._sizes[number]),
                self._encoder.block_bytes, self._directory,
            )  # fmt: skip
        assert self._large is not None
        self._large.add(encoded)
        if not unit.is_last:
            return
        placed = self._large.finish()
        self._large.close()
        if placed is not None:
            self.stored.offset[number] = placed.offset
            self.stored.stored_size[number] = placed.stored_size
            self.stored.checksum[number] = placed.checksum
            self.stored.codec[number] = placed.codec
