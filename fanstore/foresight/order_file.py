"""Reads the order in which a command will read from a file that the user names
(docs/prefetch.md)."""

from __future__ import annotations

import itertools
import os
import stat
from array import array
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.dataset import Dataset
from fanstore.errors import UsageError, show_path
from fanstore.foresight.order.follow import Expected

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REORDERED = 1024  # in samples, because the number of the reader's workers is unknown
_LINE_MOST = 1 << 14  # in bytes: longer than any path; the file may be of another kind
_SHOWN_MOST = 300  # bytes of a wrong line that a message quotes

# A mount: its prefix, and the dataset that is served there.
Mount = tuple[str, Dataset]
# The record ids of an epoch, by the number of the mount.
_Epoch = dict[int, "array[int]"]


def read_order(path: str, mounts: Sequence[Mount]) -> dict[int, Iterator[Expected]]:
    """Returns the epochs of each mount of which the file names files, by the number of the mount;
    the last epoch repeats without end. Raises UsageError, which names file and line."""
    prefixes = [(os.fsencode(prefix) + b"/", dataset) for prefix, dataset in mounts]
    epochs: list[_Epoch] = [{}]
    try:
        with open(path, "rb") as stream:
            for number, line in enumerate(iter(partial(stream.readline, _LINE_MOST), b""), 1):
                if line == b"\n":
                    epochs += [{}] if epochs[-1] else []
                    continue
                try:
                    _add(epochs[-1], line.removesuffix(b"\n"), prefixes)
                except UsageError as error:
                    raise UsageError(f"--order {path}, line {number}: {error}") from None
    except OSError as error:
        raise UsageError(f"--order {path}: {error.strerror}") from None
    named = sorted({mount for epoch in epochs for mount in epoch})
    if not named:
        raise UsageError(f"--order {path}: names no file; it has a path a line")
    return {mount: _epochs_of(mount, epochs) for mount in named}


def _epochs_of(mount: int, epochs: Sequence[_Epoch]) -> Iterator[Expected]:
    known = [
        expected(mount, np.array(epoch[mount], np.uint64)) for epoch in epochs if mount in epoch
    ]
    return itertools.chain(known[:-1], itertools.repeat(known[-1]))


def expected(mount: int, records: NDArray[np.uint64]) -> Expected:
    """Returns an epoch for a reader whose number of workers is unknown."""
    # follow.py tolerates twice as much reordering; if it were more, a wrong order could match by
    # chance.
    batch = min(_REORDERED, max(1, len(records) // 16))
    return Expected(mount, records, batch=batch)


def _add(epoch: _Epoch, line: bytes, prefixes: Sequence[tuple[bytes, Dataset]]) -> None:
    """Adds the file that a line names to the records of its mount."""
    path = _unescaped(line) if b"\\" in line else line
    mount, relpath = _below(path, prefixes)
    dataset = prefixes[mount][1]
    try:
        record = _record_of(dataset, relpath)
    except FileNotFoundError:
        raise UsageError(f"{_shown(path)} is not in the dataset") from None
    if not stat.S_ISREG(int(dataset.record(record).mode)):
        raise UsageError(f"{_shown(path)} is no regular file")
    epoch.setdefault(mount, array("Q")).append(record)


def _record_of(dataset: Dataset, relpath: bytes) -> int:
    """Returns the record of a path. Most paths are in normal form already."""
    try:
        return dataset.lookup(relpath)
    except FileNotFoundError:
        return dataset.lookup(os.path.normpath(relpath))


def _below(path: bytes, prefixes: Sequence[tuple[bytes, Dataset]]) -> tuple[int, bytes]:
    """Returns the mount of a path, and the path within it. A path is relative to the only mount, or
    begins with the prefix of a mount."""
    if not path.startswith(b"/") and len(prefixes) == 1:
        return 0, path
    for number, (prefix, _) in enumerate(prefixes):
        if path.startswith(prefix):
            return number, path[len(prefix) :]
    shown = _shown(path)
    if path.startswith(b"/"):
        named = ", ".join(os.fsdecode(prefix[:-1]) for prefix, _ in prefixes)
        raise UsageError(f"{shown} is in none of {named}")
    raise UsageError(f"{shown}: of several datasets, paths begin with a mount prefix")


def _shown(path: bytes) -> str:
    """Returns a line for a message, cut off if it is very long."""
    return show_path(path[:_SHOWN_MOST]) + ("..." if len(path) > _SHOWN_MOST else "")


def _unescaped(line: bytes) -> bytes:
    r"""Returns the path on a line, in which \n stands for a new line and \\ for a backslash."""
    parts = line.split(b"\\\\")
    if any(part.replace(b"\\n", b"").count(b"\\") for part in parts):
        raise UsageError(r"\ stands before n or \ alone")
    return b"\\".join(part.replace(b"\\n", b"\n") for part in parts)
