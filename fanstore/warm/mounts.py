"""The mounts of a job, for `fanstore warmup`; finds the records that paths name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore.dataset import Dataset, are_files, open_index
from fanstore.errors import UsageError, show_path
from fanstore.messages.requests import MountDescription

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LINKS_MAX = 40  # the limit in path_resolution(7)
_SHOWN_MAX = 20  # of wrong paths: a file that is no list of paths has very many


@dataclass(frozen=True)
class Mount:
    """A dataset of a job. places: the FAN_PLACE_* of each pack; staged: the directory of this
    node's copies, "" if packs are read in place."""

    number: int
    spellings: tuple[bytes, ...]
    dataset: Dataset
    staged: str
    places: Sequence[int]


def mounts_of(described: Iterable[MountDescription]) -> list[Mount]:
    """Opens the datasets of a job from its daemon's description. Raises DatasetDamaged,
    FanstoreError."""
    return [
        Mount(
            number,
            tuple(os.fsencode(path) for path in (each.prefix, each.alias) if path),
            open_index(Path(each.index), Path(each.directory)),
            each.staged,
            each.places,
        )
        for number, each in enumerate(described)
    ]


def named_files(mounts: Sequence[Mount], paths: Iterable[bytes]) -> dict[int, NDArray[Any]]:
    """Returns, by mount number, the ids of all files with content that the paths name, including
    the files below named directories. Each id comes once, in the order of the packs.

    Raises UsageError, which names the first twenty paths that do not exist."""
    from fanstore.arrays import np

    starts: dict[int, set[int]] = {}
    wrong: list[str] = []
    for path in paths:
        try:
            mount, record = find(mounts, path)
            starts.setdefault(mount.number, set()).add(record)
        except ValueError as error:
            wrong.append(f"{show_path(path)}: {error}")
    if wrong:
        more = [f"... and {len(wrong) - _SHOWN_MAX} more"] if len(wrong) > _SHOWN_MAX else []
        raise UsageError("nothing was brought:\n  " + "\n  ".join(wrong[:_SHOWN_MAX] + more))
    return {
        number: in_packs(mounts[number].dataset, np.array(sorted(records), dtype=np.int64))
        for number, records in sorted(starts.items())
    }


def find(mounts: Sequence[Mount], path: bytes) -> tuple[Mount, int]:
    """Returns the mount and record of a path; follows links of the dataset. Raises ValueError with
    the reason if there is none."""
    for spelling in (os.path.abspath(path), os.path.realpath(path)):
        below = _below(mounts, spelling)
        if below is not None:
            return _walk(mounts, *below)
    known = ", ".join(os.fsdecode(mount.spellings[0]) for mount in mounts)
    raise ValueError(f"is in no mount of the job ({known})")


def _below(mounts: Sequence[Mount], path: bytes) -> tuple[Mount, bytes] | None:
    """Returns the mount that contains an absolute path, and the path within it; None if there is
    none."""
    for mount in mounts:
        for prefix in mount.spellings:
            if path == prefix or path.startswith(prefix + b"/"):
                return mount, path[len(prefix) :]
    return None


def _walk(mounts: Sequence[Mount], mount: Mount, path: bytes) -> tuple[Mount, int]:
    at, links = 0, 0
    waiting = path.split(b"/")[::-1]
    while waiting:
        part = waiting.pop()
        if part in (b"", b"."):
            continue
        row = mount.dataset.record(at)
        if not stat.S_ISDIR(row.mode):
            raise ValueError("lies behind what is not a directory")
        if part == b".." and at == 0:
            raise ValueError("is a link out of the mounts")
        at = int(row.parent) if part == b".." else _child(mount.dataset, at, part)
        if not stat.S_ISLNK(mount.dataset.record(at).mode):
            continue
        links += 1
        if links > _LINKS_MAX:
            raise ValueError("leads through too many links")
        target = mount.dataset.target(at)
        at = int(mount.dataset.record(at).parent)
        if target.startswith(b"/"):
            below = _below(mounts, os.path.normpath(target))
            if below is None:
                raise ValueError(f"is a link out of the mounts, to {show_path(target)}")
            mount, target = below
            at = 0
        waiting += target.split(b"/")[::-1]
    return mount, at


def _child(dataset: Dataset, directory: int, name: bytes) -> int:
    parent = dataset.relpath(directory)
    try:
        return dataset.lookup(parent + b"/" + name if parent else name)
    except FileNotFoundError:
        raise ValueError("no such file in the dataset") from None


def in_packs(dataset: Dataset, starts: NDArray[Any]) -> NDArray[Any]:
    """Returns the ids of the files with content among the records `starts` and everything below
    them, each once, by pack and offset. Records are numbered breadth first, so the children of a
    range of records are a range, too."""
    from fanstore.arrays import np

    records = dataset.records
    parents = records["parent"][1:]
    wanted = np.zeros(len(records), dtype=bool)
    for start in starts:
        low, high = int(start), int(start) + 1
        while low < high:
            if wanted[low:high].all():
                break
            wanted[low:high] = True
            low, high = (int(np.searchsorted(parents, edge)) + 1 for edge in (low, high))
    ids = np.flatnonzero(wanted & are_files(records) & (records["stored_size"] > 0))
    return ids[np.lexsort((records["offset"][ids], records["pack"][ids]))]
