"""Checks samples of a dataset's source files for changes since the dataset was packed."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import threading
from collections.abc import Iterator

from fanstore.dataset import Dataset
from fanstore.errors import DatasetDamaged
from fanstore.node.prefix import NOTE_NAME

# The number of files to check, and of directories, which show added and removed files.
SAMPLES = 32
# The longest time that the start of a job waits for the file system of the source.
LIMIT_S = 0.05


def _source(dataset: Dataset) -> str | None:
    """Returns the directory from which the dataset was packed, according to its manifest, or
    None."""
    try:
        with open(os.path.join(dataset.directory, "manifest.json"), encoding="utf-8") as stream:
            source = json.load(stream).get("source")
    except (OSError, ValueError, AttributeError):
        return None
    return source if isinstance(source, str) else None


def _spread(records: list[int]) -> list[int]:
    return records[:: max(1, len(records) // SAMPLES)][:SAMPLES]


def _sample(dataset: Dataset) -> Iterator[int]:
    """Yields the record ids of some directories and regular files, spread over all records."""
    count = dataset.header.record_count
    step = max(1, count // (SAMPLES * 32))
    kinds = {record: stat.S_IFMT(dataset.record(record).mode) for record in range(0, count, step)}
    for kind in (stat.S_IFDIR, stat.S_IFREG):
        yield from _spread([record for record, found in kinds.items() if found == kind])


def _named(dataset: Dataset) -> Iterator[tuple[int, str]]:
    """Yields the samples with their paths in the source. Leaves out damaged records, which have no
    path."""
    for record in _sample(dataset):
        with contextlib.suppress(DatasetDamaged):
            yield record, os.fsdecode(dataset.relpath(record))


def _differs(dataset: Dataset, record: int, path: str) -> bool:
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # such as a path that is too long: shows no change
        return False
    packed = dataset.record(record)
    if found.st_mtime_ns != packed.mtime_ns:
        return True
    return not stat.S_ISDIR(found.st_mode) and found.st_size != packed.logical_size


class _Look:
    """Compares samples with the source files, as many as it can in the time limit."""

    def __init__(self, dataset: Dataset, source: str) -> None:
        self._source = source
        # Packing added the dataset's directory, which changed the directory around it.
        self._parent = os.path.dirname(os.path.realpath(dataset.directory))
        self.seen = 0
        self.differing: list[str] = []
        self._samples = list(_named(dataset))
        self._dataset = dataset

    def __call__(self) -> None:
        # The source file no longer exists.
        is_prefix = os.path.lexists(os.path.join(self._source, NOTE_NAME))
        if is_prefix or not os.path.isdir(self._source):
            return
        for record, relpath in self._samples:
            path = os.path.join(self._source, relpath).rstrip("/")
            if path == self._parent:
                continue
            if _differs(self._dataset, record, path):
                self.differing.append(path)
            self.seen += 1


def drifted_files(dataset: Dataset, prefix: str) -> list[str]:
    """Returns a list with a warning if some source files differ from the packed ones. If all differ
    and the dataset is mounted elsewhere, returns none, because the path now holds another tree."""
    source = _source(dataset)
    if source is None or not os.path.isabs(source):
        return []
    look = _Look(dataset, source)
    thread = threading.Thread(target=look, name="fanstore-drift", daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    differing, seen = len(look.differing), look.seen
    if not differing or (differing >= seen and os.path.realpath(source) != prefix):
        return []
    what = f"{differing} of {seen} examined entries differ, such as {look.differing[0]}"
    return [f"{source} has changed since it was packed: {what}; the packed content is served"]
