"""Copies packs from the shared file system in large sequential reads, and computes each checksum
while it copies.

If a pack's checksum is wrong, its files are checked one by one. The damaged ones are returned to
the caller, who marks them; the others stay readable."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, Literal, Protocol

import xxhash

from fanstore.dataset import Dataset, open_index
from fanstore.decoding import PackReader
from fanstore.errors import DatasetDamaged
from fanstore.staging.staged import ExpectedFile, StagedDirectory

CHUNK_BYTES = 8 << 20

How = Literal["copied", "received", "reused"]


@dataclass
class StageReport:
    """The result of staging one dataset on this rank. damaged: record ids by pack.

    copied: packs read from the shared file system; received: packs sent by other ranks; reused:
    packs that were there already. unchecked: packs that an earlier job left, whose content is not
    checked yet. shared_bytes: bytes read from packs on the shared file system, to copy or check
    them."""

    copied_bytes: int = 0
    copied_packs: int = 0
    received_bytes: int = 0
    received_packs: int = 0
    reused_packs: int = 0
    shared_bytes: int = 0
    damaged: dict[int, list[int]] = field(default_factory=dict)
    unchecked: list[int] = field(default_factory=list)


def _chunks_of(path: str) -> Iterator[memoryview]:
    chunk = memoryview(bytearray(CHUNK_BYTES))
    with open(path, "rb", buffering=0) as reader:
        os.posix_fadvise(reader.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        while got := reader.readinto(chunk):
            yield chunk[:got]


def stream(
    source: str | Iterator[Any],
    target: str | None,
    advance: Callable[[int], None],
    check: Callable[[], None],
) -> int:
    """Reads a file, or its pieces, once, writes it to `target` if that is given, and returns its
    XXH3-64. For each piece calls `advance` with its bytes, and `check`, which may raise."""
    digest = xxhash.xxh3_64()
    with ExitStack() as stack:
        writer = stack.enter_context(open(target, "wb", buffering=0)) if target else None
        for chunk in _chunks_of(source) if isinstance(source, str) else source:
            check()
            digest.update(chunk)
            if writer is not None:
                write_all(writer, memoryview(chunk))
            advance(len(chunk))
        if writer is not None:
            sync(writer)
    return digest.intdigest()


def write_all(stream: FileIO, data: memoryview) -> None:
    """Writes all of `data`. A raised OSError names the file."""
    try:
        while data:
            data = data[stream.write(data) :]
    except OSError as error:
        raise OSError(error.errno, error.strerror, stream.name) from error


def sync(stream: FileIO) -> None:
    """Waits until the written bytes are on the disk. A raised OSError names the file."""
    try:
        os.fsync(stream.fileno())
    except OSError as error:
        raise OSError(error.errno, error.strerror, stream.name) from error


class Watcher(Protocol):
    """Receives the progress of work; its `check` may raise to end the work. Several threads call
    it."""

    def advance(self, amount_bytes: int) -> None: ...

    def check(self) -> None: ...


class Stager:
    """Copies one dataset to its staged directory, or checks it in place."""

    def __init__(self, dataset: Dataset, watcher: Watcher) -> None:
        self.dataset = dataset
        self.report = StageReport()
        self._watcher = watcher
        self._mutex = threading.Lock()

    def expected(self, pack: int) -> ExpectedFile:
        """Returns the size and checksum of an undamaged copy of `pack`, from the index."""
        info = self.dataset.pack_info(pack)
        return ExpectedFile(self.dataset.dataset_id, info.file_bytes, info.checksum)

    def expected_index(self) -> ExpectedFile:
        """Returns the size and checksum of an undamaged copy of the index, from its header."""
        header = self.dataset.header
        return ExpectedFile(self.dataset.dataset_id, header.file_bytes, header.body_checksum)

    def stage_index(self, staged: StagedDirectory) -> str:
        """Copies the index if there is no valid copy, and returns the path of the copy. Raises
        DatasetDamaged if its checksum is wrong."""
        name = os.path.basename(self.dataset.index_path)

        def copy(part: str) -> list[int]:
            stream(os.fspath(self.dataset.index_path), part, lambda _: None, self._watcher.check)
            try:
                open_index(Path(part), self.dataset.directory, verify=True).close()
            except DatasetDamaged:
                # if the shared file is damaged, raises an error that names it
                self.dataset.check_body()
                raise
            return []

        staged.stage(name, self.expected_index(), copy, self._watcher.check)
        return staged.file(name)

    def stage_pack(self, staged: StagedDirectory, pack: int) -> list[int]:
        """Copies a pack from the shared file system if there is no valid copy; returns its damaged
        records. Raises DatasetDamaged if its header or trailer is wrong, OSError if it cannot be
        read or written."""
        source = os.fspath(self.dataset.pack_path(pack))

        name = os.path.basename(source)

        def copy(part: str) -> list[int]:
            if self.dataset.bucket is not None:
                size, check = self.expected(pack).file_bytes, self._watcher.check
                pieces = self.dataset.bucket.pieces(name, size, check)
                return self.damaged(pack, part, self._read_shared(pieces, part))
            self.dataset.check_pack_header(pack)
            return self.damaged(pack, part, self._read_shared(source, part))

        damaged, reused = staged.stage(name, self.expected(pack), copy, self._watcher.check)
        self.note(pack, damaged, "reused" if reused else "copied")
        return damaged

    def check_pack(self, pack: int, verify: bool) -> None:
        """Checks a pack in place: its header and trailer, and all content if `verify`."""
        self._watcher.check()
        self.dataset.check_pack_header(pack)
        if verify:
            source = os.fspath(self.dataset.pack_path(pack))
            self._note_damage(pack, self.damaged(pack, source, self._read_shared(source, None)))

    def is_sound(self, pack: int, path: str) -> bool:
        """Returns whether the copy of a pack at `path` has the checksum in the index."""
        checksum = stream(path, None, self._watcher.advance, self._watcher.check)
        return checksum == self.expected(pack).checksum

    def damaged(self, pack: int, path: str, checksum: int) -> list[int]:
        """Returns the damaged records of the copy at `path`, whose checksum is `checksum`. Raises
        DatasetDamaged if the copy's header or trailer is wrong."""
        if checksum == self.expected(pack).checksum:
            return []
        # Clients rely on header and trailer, and only the copy may be damaged: so the copy's are
        # checked.
        self.dataset.check_pack_header(pack, path)
        return damaged_records(self.dataset, pack, path, self._watcher.check)

    def note(self, pack: int, damaged: list[int], how: How) -> None:
        """Adds a pack to the report. how: the way in which it was staged."""
        size = self.expected(pack).file_bytes
        with self._mutex:
            report = self.report
            report.copied_packs += how == "copied"
            report.copied_bytes += size if how == "copied" else 0
            report.received_packs += how == "received"
            report.received_bytes += size if how == "received" else 0
            report.reused_packs += how == "reused"
        self._note_damage(pack, damaged)

    def _note_damage(self, pack: int, damaged: list[int]) -> None:
        if damaged:
            with self._mutex:  # a new table: other threads may be iterating over the old one
                self.report.damaged = {**self.report.damaged, pack: damaged}

    def _read_shared(self, source: str | Iterator[Any], target: str | None) -> int:
        def advance(amount_bytes: int) -> None:
            with self._mutex:
                self.report.shared_bytes += amount_bytes
            self._watcher.advance(amount_bytes)

        return stream(source, target, advance, self._watcher.check)


def damaged_records(
    dataset: Dataset, pack: int, path: str | os.PathLike[str], check: Callable[[], None]
) -> list[int]:
    """Returns the record ids of the damaged files of a pack, whose copy is at `path`. Calls
    `check`, which may raise."""
    damaged = []
    with PackReader(dataset, path) as reader:
        for record in dataset.records_of_pack(pack):
            check()
            if not reader.is_sound(record):
                damaged.append(record)
    return damaged
