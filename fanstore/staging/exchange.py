"""Sends files between ranks over MPI, in chunks, with two chunks under way at a time.

All ranks go through the same list of transfers, and each takes part in its own, so that two ranks
never wait for each other. No lock of the local directory is held during a transfer, since another
job of the same user may stage the same packs in another order. A rank receives into a temporary
file, which gets the pack's name when it is complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from typing import Any

import xxhash

from fanstore.dataset import pack_name
from fanstore.errors import FanstoreError
from fanstore.staging.crew import Crew
from fanstore.staging.placement import Transfer
from fanstore.staging.stage import Stager, sync, write_all
from fanstore.staging.staged import StagedDirectory
from fanstore.startup import MpiWorld

CHUNK_BYTES = 4 << 20
_TAG = 2

# Buffers of aborted transfers are kept here: MPI may write to them until the process ends.
_abandoned: list[Any] = []


class Travel:
    """The transfer of one file from rank `source` to other ranks. Each of these ranks creates a
    Travel with the same arguments."""

    def __init__(
        self, crew: Crew, source: int, destinations: Sequence[int], file_bytes: int
    ) -> None:
        world = crew.world
        assert isinstance(world, MpiWorld)
        self._crew = crew
        self._world = world
        self._source = source
        self._destinations = destinations
        self._is_broadcast = 1 + len(destinations) == world.world_size
        self._file_bytes = file_bytes
        room = min(CHUNK_BYTES, max(1, file_bytes))
        self._buffers = (memoryview(bytearray(room)), memoryview(bytearray(room)))
        self._requests: tuple[list[Any], list[Any]] = ([], [])

    def send(self, path: str) -> None:
        """Sends the file at `path`. Raises FanstoreError if it is shorter than file_bytes."""
        with self._kept_while_in_use(), open(path, "rb", buffering=0) as reader:
            for number in range(self._chunks()):
                self._wait(number)
                view = self._view(number)
                _read_all(reader, view)
                self._requests[number % 2].extend(self._begin(view))
                self._crew.report()
            self._wait(0)
            self._wait(1)

    def receive(self, take: Callable[[memoryview], None]) -> None:
        """Receives the file and passes each chunk to `take`, in order."""
        with self._kept_while_in_use():
            self._post(0)
            for number in range(self._chunks()):
                self._post(number + 1)
                self._wait(number)
                view = self._view(number)
                take(view)
                self._crew.advance(len(view))
                self._crew.report()

    def _chunks(self) -> int:
        return -(-self._file_bytes // len(self._buffers[0]))

    def _view(self, number: int) -> memoryview:
        buffer = self._buffers[number % 2]
        return buffer[: min(len(buffer), self._file_bytes - number * len(buffer))]

    def _begin(self, view: memoryview) -> list[Any]:
        """Starts to send or receive a chunk. In a broadcast, sender and receivers make the same
        call."""
        if self._is_broadcast:
            return [self._world.ibcast(view, self._source)]
        return [self._world.isend(view, rank, _TAG) for rank in self._destinations]

    def _post(self, number: int) -> None:
        """Starts to receive chunk `number`, if the file has so many."""
        if number >= self._chunks():
            return
        view, requests = self._view(number), self._requests[number % 2]
        if self._is_broadcast:
            requests.extend(self._begin(view))
        else:
            requests.append(self._world.irecv(view, self._source, _TAG))

    def _wait(self, number: int) -> None:
        """Waits until MPI no longer uses the buffer of a chunk."""
        requests = self._requests[number % 2]
        self._world.wait_all(requests)
        requests.clear()

    @contextlib.contextmanager
    def _kept_while_in_use(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            _abandoned.append((self._buffers, self._requests))
            raise


def _read_all(reader: FileIO, view: memoryview) -> None:
    while view:
        got = reader.readinto(view)
        if not got:
            raise FanstoreError(f"{os.fspath(reader.name)}: became shorter while it was sent")
        view = view[got:]


class ReceivedFile:
    """A temporary file to which this rank writes the chunks that arrive. The caller calls `remove`
    in any case."""

    def __init__(self, target: str) -> None:
        self.path = f"{target}.{os.getpid()}.part"
        self._digest = xxhash.xxh3_64()

    def fill(self, travel: Travel) -> int:
        """Receives the whole file and returns its XXH3-64. Raises OSError with the file's name if
        the disk is full."""
        try:
            with open(self.path, "wb", buffering=0) as writer:
                travel.receive(lambda view: self._take(writer, view))
        except BaseException:
            self.remove()
            raise
        return self._digest.intdigest()

    def _take(self, writer: FileIO, view: memoryview) -> None:
        self._digest.update(view)
        write_all(writer, view)

    def sync(self) -> None:
        """Waits until the file's bytes are on the disk."""
        with open(self.path, "ab", buffering=0) as writer:
            sync(writer)

    def become(self, part: str) -> None:
        """Renames the file to `part`, so that `remove` does nothing."""
        os.rename(self.path, part)

    def remove(self) -> None:
        """Removes the file, unless it was renamed by `become`."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


class Exchange:
    """This rank's part in the transfers of one dataset's packs.

    fresh: the packs that some rank has just read from the shared file system.
    """

    def __init__(
        self, crew: Crew, stager: Stager, staged: StagedDirectory, fresh: Sequence[int]
    ) -> None:
        self._crew = crew
        self._stager = stager
        self._staged = staged
        self._fresh = frozenset(fresh)

    def run(self, transfers: Sequence[Transfer]) -> None:
        """Sends and receives the packs of all transfers, in turn. Checks and stages the received
        packs."""
        rank = self._crew.world.rank
        for transfer in transfers:
            if rank in transfer.members:
                self._crew.poll()
                file_bytes = self._stager.expected(transfer.pack).file_bytes
                travel = Travel(self._crew, transfer.source, transfer.destinations, file_bytes)
                self._take_part(transfer, travel, rank == transfer.source)
        self._crew.settle()

    def _take_part(self, transfer: Transfer, travel: Travel, is_source: bool) -> None:
        target = self._staged.file(pack_name(transfer.pack))
        if is_source:
            travel.send(target)
            return
        received = ReceivedFile(target)
        checksum = received.fill(travel)
        self._crew.submit(self._finish, transfer.pack, received, checksum)

    def _finish(self, pack: int, received: ReceivedFile, checksum: int) -> None:
        """Checks a received pack against the index and stages it. Does not rely on any check of its
        source."""
        expected = self._stager.expected(pack)

        def adopt(part: str) -> list[int]:
            damaged = self._stager.damaged(pack, received.path, checksum)
            received.become(part)
            return damaged

        try:
            if checksum != expected.checksum and pack not in self._fresh:
                # The source's copy is damaged; the pack on the shared file system may be good.
                self._stager.stage_pack(self._staged, pack)
                return
            received.sync()
            name = pack_name(pack)
            damaged, _ = self._staged.stage(name, expected, adopt, self._crew.check)
            self._stager.note(pack, damaged, "received")
        finally:
            received.remove()
