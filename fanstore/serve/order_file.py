"""The order in which a command will read, from a file that a user names (docs/prefetch.md)."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.dataset import Dataset
from fanstore.errors import UsageError
from fanstore.order.expected import Expected

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REORDERED = 1024  # samples: nothing is known of the reader's workers

# A mount: its prefix, and the dataset that is served there.
Mount = tuple[str, Dataset]


def read_order(path: str, mounts: Sequence[Mount]) -> dict[int, Iterator[Expected]]:
    """Returns the epochs of each mount that a file names files of, by the number of the mount; the
    last epoch comes again and again. Raises UsageError, which names file and line."""
    try:
        with open(path, "rb") as stream:
            lines = stream.read().split(b"\n")
    except OSError as error:
        raise UsageError(f"--order {path}: {error.strerror}") from None
    epochs: list[list[tuple[int, int]]] = [[]]
    for number, line in enumerate(lines, 1):
        if line:
            epochs[-1].append(_record_of(line, mounts, f"--order {path}, line {number}"))
        elif epochs[-1]:
            epochs.append([])
    if not epochs[-1]:
        epochs.pop()
    if not epochs:
        raise UsageError(f"--order {path}: names no file; it has a path a line")
    named = {mount for epoch in epochs for mount, _ in epoch}
    return {mount: _epochs_of(mount, epochs) for mount in sorted(named)}


def _epochs_of(mount: int, epochs: Sequence[Sequence[tuple[int, int]]]) -> Iterator[Expected]:
    of_mount = [
        np.array([record for each, record in epoch if each == mount], np.uint64) for epoch in epochs
    ]
    known = [_expected(mount, records) for records in of_mount if len(records)]
    return itertools.chain(known[:-1], itertools.repeat(known[-1]))


def _expected(mount: int, records: NDArray[np.uint64]) -> Expected:
    batch = min(_REORDERED, max(1, len(records) // 8))
    return Expected(mount, records, batch=batch)


def _record_of(line: bytes, mounts: Sequence[Mount], where: str) -> tuple[int, int]:
    """Returns mount and record of a path: relative to the only mount, or below the prefix of
    one."""
    path = _unescaped(line, where)
    number, relpath = _below(path, mounts, where)
    dataset = mounts[number][1]
    try:
        record = dataset.lookup(relpath)
    except FileNotFoundError:
        raise UsageError(f"{where}: {os.fsdecode(path)} is not in the dataset") from None
    if not stat.S_ISREG(int(dataset.record(record).mode)):
        raise UsageError(f"{where}: {os.fsdecode(path)} is no regular file")
    return number, record


def _below(path: bytes, mounts: Sequence[Mount], where: str) -> tuple[int, bytes]:
    for number, (prefix, _) in enumerate(mounts):
        start = os.fsencode(prefix) + b"/"
        if path.startswith(start):
            return number, os.path.normpath(path[len(start) :])
    shown = os.fsdecode(path)
    if path.startswith(b"/"):
        raise UsageError(f"{where}: {shown} is in none of " + ", ".join(each for each, _ in mounts))
    if len(mounts) > 1:
        raise UsageError(f"{where}: {shown}: of several datasets, paths begin with a mount prefix")
    return 0, os.path.normpath(path)


def _unescaped(line: bytes, where: str) -> bytes:
    r"""Returns a path, in which \n stands for a new line and \\ for a backslash."""
    parts = line.split(b"\\\\")
    if any(part.replace(b"\\n", b"").count(b"\\") for part in parts):
        raise UsageError(rf"{where}: \ stands before n or \ alone")
    return b"\\".join(part.replace(b"\\n", b"\n") for part in parts)
