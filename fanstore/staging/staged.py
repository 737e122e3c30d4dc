"""A dataset's directory on the local disk, shared by every job of the user that serves it.

datasets/<dataset id>/lock             held shared by its users
                      index.fsi        and each pack, complete if it has a marker
                      index.fsi.ok     the marker: describes the copy and its damaged records
                      index.fsi.part   being copied
                      index.fsi.lock   held by the process that copies it
                      keep             if present, the files stay when the last user leaves;
                                       contains the path of the directory that was listed, if any
                      resident         records in partial packs (see fanstore.staging.resident)
                      pack-*.sparse    a partial pack
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from fanstore.staging import locks
from fanstore.staging.base import StagingFolder, make_private
from fanstore.staging.resident import (
    SPARSE,
    forget_resident,
    resident_bytes,
    take_over,
)
from fanstore.wording import show_bytes

KEEP = "keep"  # while it exists, the other files stay


@dataclass(frozen=True)
class ExpectedFile:
    """The size and checksum that a staged file must have, from the index and not from the copy
    itself."""

    dataset_id: str
    file_bytes: int
    checksum: int


class StagedDirectory:
    """Holds `<base>/datasets/<dataset id>` for one user of it, by a shared lock."""

    def __init__(self, base: StagingFolder, dataset_id: str, source: str = "") -> None:
        """source: the directory of which the dataset is a listing, or ""."""
        self._base = base
        self._source = os.fsencode(source)
        self.path = os.path.join(base.folder("datasets"), dataset_id)
        self.lock_path = os.path.join(self.path, "lock")
        self._fd: int | None = None

    def hold(self, keep: bool = False) -> None:
        """Creates the directory and takes its shared lock. The caller holds the base's lock. If
        nobody else uses the directory, tidies it first, so that partial packs are checked again.
        keep: the files stay even if this job is killed."""
        make_private(self.path)
        fd = locks.take(self.lock_path, exclusive=True)
        if fd is not None:
            tidy(self.path)
            locks.try_lock(fd, exclusive=False)
        else:
            fd = locks.take(self.lock_path, exclusive=False)
        if fd is None:
            raise BlockingIOError(f"{self.lock_path}: held exclusively")
        self._fd = fd
        if keep:
            self._mark_kept()
        if self._source:
            self._let_older_go()

    def _let_older_go(self) -> None:
        """Ends the keeping of what older listings of the directory left, because no later job would
        use it."""
        for path in self._base.entries("datasets"):
            with contextlib.suppress(OSError):
                mark = Path(path, KEEP)
                if path != self.path and mark.read_bytes() == self._source:
                    mark.unlink()

    def forget_partial(self, check: Callable[[], None]) -> bool:
        """Removes the partial packs if no other job uses the directory. Returns whether it did."""
        assert self._fd is not None
        with self._base.locked(check):  # no other job can begin to use the directory meanwhile
            alone = locks.try_lock(self._fd, exclusive=True)
            if alone:
                forget_resident(self.path)
            # a failed conversion drops the shared lock: take it again
            locks.try_lock(self._fd, exclusive=False)
        return alone

    def release(self, keep: bool) -> None:
        """Releases the lock; if this was the last user, the files stay only if `keep`."""
        if self._fd is None:
            return
        # no other job can begin to use the directory meanwhile
        with contextlib.suppress(OSError), self._base.locked():
            if keep:
                self._mark_kept()
            elif locks.try_lock(self._fd, exclusive=True):
                os.unlink(os.path.join(self.path, KEEP))
        os.close(self._fd)
        self._fd = None

    def _mark_kept(self) -> None:
        Path(self.path, KEEP).write_bytes(self._source)

    def file(self, name: str) -> str:
        """Returns the path of a file in the directory, such as the index or a pack."""
        return os.path.join(self.path, name)

    def damaged_in(self, name: str, expected: ExpectedFile) -> list[int] | None:
        """Returns the ids of the damaged records in a complete, valid copy of `name`; None if there
        is no such copy."""
        marker = _read_marker(self.file(name))
        try:
            found = os.stat(self.file(name))
        except FileNotFoundError:
            return None
        if marker is None or marker != _marker(expected, found, _damaged_ids(marker)):
            return None
        return _damaged_ids(marker)

    def stage(
        self,
        name: str,
        expected: ExpectedFile,
        copy: Callable[[str], list[int]],
        check: Callable[[], None],
    ) -> tuple[list[int], bool]:
        """Makes a copy of `name` unless there is a valid one. Returns its damaged record ids, and
        whether it was there already.

        `copy(path)` writes the copy and returns its damaged record ids; one job at a time runs
        it."""
        target = self.file(name)
        fd = locks.wait(target + ".lock", exclusive=True, check=check)
        try:
            damaged = self.damaged_in(name, expected)
            if damaged is not None:
                return damaged, True
            return self._make(target, expected, copy), False
        finally:
            os.close(fd)

    def forget(self, name: str, check: Callable[[], None]) -> None:
        """Invalidates the copy of `name`, so that the next `stage` makes a new one."""
        fd = locks.wait(self.file(name) + ".lock", exclusive=True, check=check)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.file(name) + ".ok")
        finally:
            os.close(fd)

    def _make(
        self, target: str, expected: ExpectedFile, copy: Callable[[str], list[int]]
    ) -> list[int]:
        part = target + ".part"
        try:
            damaged = copy(part)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(target + ".ok")
            os.rename(part, target)
            _write_marker(target, _marker(expected, os.stat(target), damaged))
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)
        return damaged


def _marker(expected: ExpectedFile, found: os.stat_result, damaged: object) -> dict[str, object]:
    return {
        "dataset_id": expected.dataset_id,
        "file_bytes": expected.file_bytes,
        "checksum": expected.checksum,
        "found_bytes": found.st_size,
        "mtime_ns": found.st_mtime_ns,
        "inode": found.st_ino,
        "damaged": damaged,
    }


def _read_marker(target: str) -> dict[str, object] | None:
    """Returns the content of a copy's marker; None if there is no valid marker."""
    try:
        with open(target + ".ok", encoding="utf-8") as stream:
            marker = json.load(stream)
    except (FileNotFoundError, ValueError):
        return None
    return marker if isinstance(marker, dict) and _damaged_ids(marker) is not None else None


def _damaged_ids(marker: dict[str, object]) -> list[int] | None:
    ids = marker.get("damaged")
    sane = isinstance(ids, list) and all(type(i) is int for i in ids)
    return ids if sane else None  # type: ignore[return-value]


def _write_marker(target: str, marker: dict[str, object]) -> None:
    temporary = target + ".ok.part"
    with open(temporary, "w", encoding="utf-8") as stream:
        json.dump(marker, stream)
        stream.flush()
        os.fsync(stream.fileno())
    os.rename(temporary, target + ".ok")


def whole_files(path: str) -> tuple[int, int]:
    """Returns the number of whole packs in a staged dataset's directory, and the bytes of all files
    in it."""
    packs, total_bytes = 0, 0
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(path):
            with contextlib.suppress(FileNotFoundError):
                if not entry.name.endswith(SPARSE):
                    total_bytes += entry.stat(follow_symlinks=False).st_size
            packs += entry.name.endswith(".fsp.ok")
        total_bytes += resident_bytes(path)
    return packs, total_bytes


def kept_words(paths: Iterable[str]) -> str:
    """Returns a sentence for users about the staged datasets that stay after a job."""
    kept = [(path, *whole_files(path)) for path in paths if os.path.isdir(path)]
    if not kept:
        return "nothing was kept"
    packs, total_bytes = sum(each[1] for each in kept), sum(each[2] for each in kept)
    noun = "pack is" if packs == 1 else "packs are"
    where = os.path.dirname(kept[0][0])
    return (
        f"{packs:,} whole {noun} kept in {where} ({show_bytes(total_bytes)}) for the next job; "
        "`fanstore clean` removes them"
    )


def kept_of_others(base: StagingFolder, own: Iterable[str]) -> int:
    """Returns how many bytes on disk the datasets take that were kept for later jobs, without the
    ids `own`."""
    total = 0
    for path in base.entries("datasets"):
        if os.path.basename(path) in own or not os.path.exists(os.path.join(path, KEEP)):
            continue
        with contextlib.suppress(FileNotFoundError):  # another job may remove the directory now
            total += sum(entry.stat(follow_symlinks=False).st_blocks for entry in os.scandir(path))
    return total * 512  # st_blocks counts units of 512 bytes (stat(2))


def others_words(kept_bytes: int) -> str:
    """Returns a clause for messages about the bytes of kept datasets, which says how to remove
    them; "" for 0."""
    if not kept_bytes:
        return ""
    return (
        f"; other datasets, kept by earlier jobs, take {show_bytes(kept_bytes)} there "
        "(`fanstore clean` removes what no job uses)"
    )


def tidy(path: str) -> None:
    """Removes unfinished and damaged copies from a directory that nobody uses, and turns resident
    records into claims."""
    for name in os.listdir(path):
        target = os.path.join(path, name)
        if name.endswith((".part", ".lock")):
            os.unlink(target)
        elif name.endswith(".ok"):
            marker = _read_marker(target[: -len(".ok")])
            if marker is None or marker["damaged"]:
                os.unlink(target)
    take_over(path)


def sweep_datasets(base: StagingFolder) -> None:
    """Discards staged datasets that nobody uses, except those to keep. The caller holds the base's
    lock."""
    for path in base.entries("datasets"):
        with contextlib.suppress(OSError), locks.free(os.path.join(path, "lock")) as unused:
            if unused and os.path.exists(os.path.join(path, KEEP)):
                tidy(path)
            elif unused:
                base.discard(path)
