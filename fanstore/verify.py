"""Checks a dataset: the checksums of the index, the header and trailer of every pack, and the
content of every file. `glance` is quick: it leaves out the content and the records."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import xxhash

from fanstore.dataset import Dataset
from fanstore.decoding import PackReader
from fanstore.errors import DatasetDamaged

_PIECE_BYTES = 1 << 20
# Several at once, because remote file systems answer several requests at a time.
_LOOKS_AT_ONCE = 16


def _checksum(path: Path) -> int:
    """Returns the XXH3-64 of a whole file. The caller has just read the files of the pack, so most
    of it is in the page cache."""
    digest = xxhash.xxh3_64()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.intdigest()


def _told(error: DatasetDamaged | OSError) -> str:
    if isinstance(error, DatasetDamaged):
        return str(error)
    reason = "missing" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
    return f"{os.fsdecode(error.filename or '')}: {reason}"


def glance(dataset: Dataset) -> list[str]:
    """Returns a line for each damage that the checksum of the index, or the size, header or trailer
    of a pack shows. Does not read the content. Packs that are planned have no damage."""
    found = []
    try:
        dataset.check_body()
    except DatasetDamaged as error:
        found.append(_told(error))

    def look(pack: int) -> str | None:
        try:
            dataset.check_pack_header(pack)
        except (DatasetDamaged, OSError) as error:
            return _told(error)
        return None

    with ThreadPoolExecutor(_LOOKS_AT_ONCE) as pool:
        packs = range(0 if dataset.is_planned else dataset.pack_count)
        found += [told for told in pool.map(look, packs) if told]
    return found


@dataclass
class Findings:
    """The result of a check. files, logical_bytes: how much was checked. refused: messages about
    damaged packs or sections. damaged: relpaths of damaged files."""

    files: int = 0
    logical_bytes: int = 0
    refused: list[str] = field(default_factory=list)
    damaged: list[bytes] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not self.refused and not self.damaged


class Verifier:
    """Checks records and packs, several packs at a time.

    Calls `advance`, from any thread, with the number of bytes checked."""

    def __init__(self, dataset: Dataset, advance: Callable[[int], object]) -> None:
        self._dataset = dataset
        self._advance = advance
        self._mutex = threading.Lock()
        self.findings = Findings()

    def check_records(self) -> None:
        """Checks the records of the index, and stops at the first damaged one."""
        try:
            self._dataset.check_records()
            self._dataset.check_lookups()
        except DatasetDamaged as error:
            self.findings.refused.append(str(error))

    def check_pack(self, pack: int) -> None:
        """Checks one pack: its header and trailer, each file in it, and the checksum of the whole
        pack."""
        try:
            self._dataset.check_pack_header(pack)
            with self._dataset.pack_at_hand(pack) as path:
                with PackReader(self._dataset, path) as reader:
                    sound = True
                    for record in self._dataset.records_of_pack(pack):
                        sound &= self._check_file(record, reader)
                # If a file is damaged, the checksum of the pack is wrong for that reason.
                if sound and _checksum(path) != self._dataset.pack_info(pack).checksum:
                    where, why = self._dataset.pack_shown(pack), "not what the index says"
                    raise DatasetDamaged(where, "checksum of the file", 0, why)
        except (DatasetDamaged, OSError) as error:
            with self._mutex:
                self.findings.refused.append(_told(error))

    def _check_file(self, record: int, reader: PackReader) -> bool:
        sound = reader.is_sound(record)
        size = int(self._dataset.records[record]["logical_size"])
        with self._mutex:
            self.findings.files += 1
            self.findings.logical_bytes += size
            if not sound:
                self.findings.damaged.append(self._dataset.relpath(record))
            self._advance(size)
        return sound


def verify(
    dataset: Dataset, jobs: int = 1, advance: Callable[[int], object] = lambda amount_bytes: None
) -> Findings:
    """Checks all packs of an open dataset with `jobs` threads. The findings are sorted."""
    verifier = Verifier(dataset, advance)
    verifier.check_records()
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(verifier.check_pack, range(dataset.pack_count)))
    verifier.findings.refused.sort()
    verifier.findings.damaged.sort()
    return verifier.findings
