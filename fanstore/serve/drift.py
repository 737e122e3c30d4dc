"""Whether the originals under a mount prefix have changed since they were packed."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator

from fanstore.dataset import Dataset

SAMPLES = 16


def _source(dataset: Dataset) -> str | None:
    """The directory that the dataset was packed from, by its manifest."""
    try:
        with open(os.path.join(dataset.directory, "manifest.json"), encoding="utf-8") as stream:
            source = json.load(stream).get("source")
    except (OSError, ValueError, AttributeError):
        return None
    return source if isinstance(source, str) else None


def _sample(dataset: Dataset) -> Iterator[int]:
    """Up to SAMPLES regular files, spread over the records."""
    count = len(dataset.records)
    step = max(1, count // (SAMPLES * 2))
    modes = dataset.records["mode"][::step]
    files = [i * step for i, mode in enumerate(modes.tolist()) if stat.S_ISREG(mode)]
    yield from files[:: max(1, len(files) // SAMPLES)][:SAMPLES]


def _differs(dataset: Dataset, record: int, path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return True
    packed = dataset.records[record]
    return (found.st_size, found.st_mtime_ns) != (
        int(packed["logical_size"]),
        int(packed["mtime_ns"]),
    )


def drifted_files(dataset: Dataset, prefix: str) -> list[str]:
    """A warning when `prefix` is where the dataset came from and a sampled file differs."""
    source = _source(dataset)
    if source is None or os.path.realpath(source) != prefix:
        return []
    for record in _sample(dataset):
        path = os.path.join(prefix, os.fsdecode(dataset.relpath(record)))
        if _differs(dataset, record, path):
            return [f"{path} has changed since it was packed; the packed content is served"]
    return []
