"""Checks, by a few samples, whether the originals of a dataset have changed since they were
packed."""

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

# The number of files to look at, and of directories, which show additions and removals.
SAMPLES = 32
# The longest time that a start waits for the file system of the originals.
LIMIT_S = 0.05


def _source(dataset: Dataset) -> str | None:
    """Returns the directory that the dataset was packed from, from its manifest, or None."""
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
    """Yields the samples with their paths below the source; leaves out damaged records, which have
    no path."""
    for record in _sample(dataset):
        with contextlib.suppress(DatasetDamaged):
            yield record, os.fsdecode(dataset.relpath(record))


def _differs(dataset: Dataset, record: int, path: str) -> bool:
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # such as a path that is too long: it shows nothing
        return False
    packed = dataset.record(record)
    if found.st_mtime_ns != packed.mtime_ns:
        return True
    return not stat.S_ISDIR(found.st_mode) and found.st_size != packed.logical_size


class _Look:
    """Compares samples with the originals, as many as it can in the given time."""

    def __init__(self, dataset: Dataset, source: str) -> None:
        self._source = source
        # Packing the dataset changed the directory that contains it.
        self._parent = os.path.dirname(os.path.realpath(dataset.directory))
        self.seen = 0
        self.differing: list[str] = []
        self._samples = list(_named(dataset))
        self._dataset = dataset

    def __call__(self) -> None:
        is_prefix = os.path.lexists(os.path.join(self._source, NOTE_NAME))  # the original is gone
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
    """Returns a warning, in a list, if some of the originals differ from the packed files. There is
    none if all of them differ and the dataset is mounted elsewhere: then another tree is there
    now."""
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
    what = f"{differing} of {seen} entries looked at differ, {look.differing[0]} for one"
    return [f"{source} has changed since it was packed: {what}; the packed content is served"]
