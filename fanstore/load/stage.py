"""Staging: each pack is read once, in large sequential reads, checked as it streams by.

Where a pack's checksum fails its files are checked one by one: the damaged ones are told to the
caller, who marks them, and the others stay readable.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

import xxhash

from fanstore.dataset import Dataset, open_index
from fanstore.errors import FanstoreError
from fanstore.load import memory
from fanstore.load.damage import damaged_records
from fanstore.load.local_dir import LocalDirectory
from fanstore.load.staged import Expected, StagedDirectory
from fanstore.load.stopping import Stop, Stopped
from fanstore.progress import Progress

CHUNK_BYTES = 8 << 20


@dataclass
class StageReport:
    """What staging one dataset did. damaged: record ids by pack."""

    copied_bytes: int = 0
    copied_packs: int = 0
    reused_packs: int = 0
    damaged: dict[int, list[int]] = field(default_factory=dict)


def stream(
    source: str,
    target: str | None,
    advance: Callable[[int], None],
    check: Callable[[], None],
) -> int:
    """Reads `source` once, writing it to `target` if given: XXH3-64 of it.

    `advance` is told of bytes as they pass; `check` may raise to give up.
    """
    digest = xxhash.xxh3_64()
    chunk = bytearray(CHUNK_BYTES)
    view = memoryview(chunk)
    with ExitStack() as stack:
        reader = stack.enter_context(open(source, "rb", buffering=0))
        os.posix_fadvise(reader.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        writer = stack.enter_context(open(target, "wb", buffering=0)) if target else None
        while got := reader.readinto(chunk):
            check()
            digest.update(view[:got])
            if writer is not None:
                _write_all(writer, view[:got])
            advance(got)
        if writer is not None:
            os.fsync(writer.fileno())
    return digest.intdigest()


def _write_all(stream: FileIO, data: memoryview) -> None:
    try:
        while data:
            data = data[stream.write(data) :]
    except OSError as error:
        raise OSError(error.errno, error.strerror, stream.name) from error


class Stager:
    """Brings one dataset to its staged directory, or checks it where it lies."""

    def __init__(self, dataset: Dataset, progress: Progress, stop: Stop) -> None:
        self.dataset = dataset
        self.report = StageReport()
        self._progress = progress
        self._stop = stop
        self._mutex = threading.Lock()
        self._failed = False

    def expected(self, pack: int) -> Expected:
        """What the copy of `pack` must be, by the index."""
        info = self.dataset.pack_info(pack)
        return Expected(self.dataset.dataset_id, info.file_bytes, info.checksum)

    def expected_index(self) -> Expected:
        """What the copy of the index must be, by its header."""
        header = self.dataset.header
        return Expected(
            self.dataset.dataset_id, int(header["file_bytes"]), int(header["body_checksum"])
        )

    def total_bytes(self) -> int:
        """The size of all packs."""
        return sum(self.expected(pack).file_bytes for pack in range(self.dataset.pack_count))

    def missing_bytes(self, staged: StagedDirectory) -> int:
        """How much would be copied now."""
        name = os.path.basename(self.dataset.index_path)
        absent = staged.damaged_in(name, self.expected_index()) is None
        total = self.expected_index().file_bytes if absent else 0
        for pack in range(self.dataset.pack_count):
            expected = self.expected(pack)
            name = os.path.basename(self.dataset.pack_path(pack))
            if staged.damaged_in(name, expected) is None:
                total += expected.file_bytes
        return total

    def stage_index(self, staged: StagedDirectory) -> str:
        """The path of the staged index. DatasetDamaged where its checksum does not fit."""
        name = os.path.basename(self.dataset.index_path)

        def copy(part: str) -> list[int]:
            self.dataset.check_body()
            stream(os.fspath(self.dataset.index_path), part, lambda _: None, self._check)
            open_index(Path(part), self.dataset.directory, verify=True).close()
            return []

        staged.stage(name, self.expected_index(), copy, self._check)
        return staged.file(name)

    def stage_packs(self, staged: StagedDirectory, threads: int, verify: bool) -> StageReport:
        """Copies what is missing; `verify` checks copies that are there, too.

        DatasetDamaged for a pack whose header does not fit.
        """
        self._each_pack(lambda pack: self._stage_pack(staged, pack, verify), threads)
        return self.report

    def check_in_place(self, threads: int, verify: bool) -> StageReport:
        """Checks the packs where they lie: their headers, and with `verify` all content."""
        self._each_pack(lambda pack: self._check_pack(pack, verify), threads)
        return self.report

    def _each_pack(self, work: Callable[[int], None], threads: int) -> None:
        packs = range(self.dataset.pack_count)
        with ThreadPoolExecutor(max(1, min(threads, len(packs)))) as pool:
            futures = [pool.submit(work, pack) for pack in packs]
            try:
                done, pending = wait(futures, return_when=FIRST_EXCEPTION)
                self._failed = bool(pending)
            finally:
                for future in futures:
                    future.cancel()
            for future in done:
                future.result()

    def _check(self) -> None:
        """Raises Stopped when the job ends, or when another pack has failed."""
        self._stop.check()
        if self._failed:
            raise Stopped("another pack failed")

    def _stage_pack(self, staged: StagedDirectory, pack: int, verify: bool) -> None:
        source = os.fspath(self.dataset.pack_path(pack))
        expected = self.expected(pack)

        def copy(part: str) -> list[int]:
            self.dataset.check_pack_header(pack)
            checksum = self._stream(source, part)
            return self._damaged(pack, part, checksum)

        def is_sound(path: str) -> bool:
            return not verify or self._stream(path, None) == expected.checksum

        name = os.path.basename(source)
        damaged, reused = staged.stage(name, expected, copy, self._check, is_sound)
        with self._mutex:
            self.report.reused_packs += reused
            self.report.copied_packs += not reused
            self.report.copied_bytes += 0 if reused else expected.file_bytes
            if damaged:
                self.report.damaged[pack] = damaged

    def _check_pack(self, pack: int, verify: bool) -> None:
        self._check()
        self.dataset.check_pack_header(pack)
        if not verify:
            return
        source = os.fspath(self.dataset.pack_path(pack))
        damaged = self._damaged(pack, source, self._stream(source, None))
        if damaged:
            with self._mutex:
                self.report.damaged[pack] = damaged

    def _damaged(self, pack: int, path: str, checksum: int) -> list[int]:
        if checksum == self.expected(pack).checksum:
            return []
        # The copy itself may be what broke; its frame is what clients rely on.
        self.dataset.check_pack_header(pack, path)
        return damaged_records(self.dataset, pack, path, self._check)

    def _stream(self, source: str, target: str | None) -> int:
        return stream(source, target, self._progress.advance, self._check)


def check_room(directory: LocalDirectory, needed: Sequence[tuple[str, int]]) -> None:
    """Refuses, with the figures, to copy (dataset, bytes) pairs that cannot fit."""
    total = sum(amount for _, amount in needed)
    named = ", ".join(f"{name} {_size(amount)}" for name, amount in needed if amount)
    if total > directory.free_bytes:
        raise FanstoreError(
            f"{directory.path}: {_size(total)} are needed to stage {named}, "
            f"{_size(directory.free_bytes)} are free; use another --local-dir, or --in-place"
        )
    room = memory.available_bytes() if directory.in_memory else None
    if room is not None and total > room:
        raise FanstoreError(
            f"{directory.path} is in memory: {_size(total)} are needed to stage {named}, the "
            f"control group's limit leaves {_size(room)}; use another --local-dir, or --in-place"
        )


def _size(amount_bytes: int) -> str:
    return f"{amount_bytes / (1 << 20):,.1f} MiB ({amount_bytes:,} bytes)"
