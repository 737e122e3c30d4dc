"""Unpacks a dataset: writes the tree that was packed, with content, modes, times and links."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from fanstore.atomic import Destination, is_within, make_whole
from fanstore.dataset import Dataset, are_files
from fanstore.decoding import ContentDamaged, PackReader
from fanstore.errors import FanstoreError, UsageError, show_path
from fanstore.exit_codes import DAMAGED

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ExtractDamaged(FanstoreError):
    """The content of some files is damaged; they were left out."""

    exit_code = DAMAGED


class Extractor:
    """Writes records below a directory that this process has just made.

    Creates every entry through a descriptor of its directory, so that no name can lead outside, and
    no path is too long. Visits directories in the order of a tree walk, so that few steps lead from
    one to the next: the cost is proportional to the number of entries, however deep they lie. Calls
    `advance` with the number of bytes written."""

    def __init__(self, dataset: Dataset, root: Path, advance: Callable[[int], object]) -> None:
        self._dataset = dataset
        self._walker = _Walker(dataset, root)
        self._advance = advance
        # Record of a hard-linked file's first name: the record that was written for it.
        self._made: dict[int, int] = {}
        self.damaged: list[bytes] = []

    def close(self) -> None:
        self._walker.close()

    def extract(self, records: Iterable[int]) -> None:
        """Writes records, each after its parents. Then sets the owner, mode and time of each
        directory below the root."""
        wanted = sorted(set(records))
        walk = _walk_of(self._dataset, wanted)
        rank = {record: at for at, record in enumerate(walk)}
        others: list[int] = []
        content: list[int] = []
        for record in wanted:
            if record not in rank:
                (content if stat.S_ISREG(self._mode(record)) else others).append(record)
        self._make_directories(walk)
        for record in sorted(others, key=lambda r: (rank[self._parent(r)], r)):
            self._symlink(record)
        for pack, ids in self._by_pack(content, rank):
            with (
                self._dataset.pack_at_hand(pack) as path,
                PackReader(self._dataset, path) as reader,
            ):
                for record in ids:
                    self._file(record, reader)
        self._finish_directories(walk)

    def _mode(self, record: int) -> int:
        return int(self._dataset.records[record]["mode"])

    def _parent(self, record: int) -> int:
        return int(self._dataset.records[record]["parent"])

    def _by_pack(self, content: list[int], rank: dict[int, int]) -> Iterator[tuple[int, list[int]]]:
        packs = self._dataset.records["pack"]
        offsets = self._dataset.records["offset"]
        groups: dict[int, list[int]] = {}
        for record in content:
            groups.setdefault(int(packs[record]), []).append(record)
        for pack, ids in sorted(groups.items()):
            yield pack, sorted(ids, key=lambda r: (rank[self._parent(r)], int(offsets[r]), r))

    def _place(self, record: int) -> tuple[int, bytes]:
        """Returns a descriptor of the directory that an entry lies in, valid until the next call,
        and the entry's name."""
        return self._walker.go_to(self._parent(record)), self._walker.name(record)

    def _make_directories(self, walk: list[int]) -> None:
        """Creates all directories with mode 0700. They get their own modes when they are filled."""
        for record in walk[1:]:
            fd, name = self._place(record)
            os.mkdir(name, 0o700, dir_fd=fd)

    def _symlink(self, record: int) -> None:
        fd, name = self._place(record)
        os.symlink(self._dataset.target(record), name, dir_fd=fd)
        self._set_time(record, name, fd)

    def _file(self, record: int, reader: PackReader) -> None:
        first = self._dataset.first_name(record)
        if first in self._made:
            self._link(self._made[first], record)
            return
        fd, name = self._place(record)
        try:
            self._write(record, reader, name, fd)
        except ContentDamaged:
            os.unlink(name, dir_fd=fd)
            self.damaged.append(self._dataset.relpath(record))
            return
        self._made[first] = record
        self._finish(record, name, fd)

    def _write(self, record: int, reader: PackReader, name: bytes, dir_fd: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, 0o600, dir_fd=dir_fd), "wb") as out:
            for piece in reader.pieces(record):
                out.write(piece)
                self._advance(len(piece))

    def _link(self, made: int, record: int) -> None:
        from_fd = os.dup(self._walker.go_to(self._parent(made)))
        try:
            fd, name = self._place(record)
            source = self._walker.name(made)
            os.link(source, name, src_dir_fd=from_fd, dst_dir_fd=fd, follow_symlinks=False)
        finally:
            os.close(from_fd)

    def _finish(self, record: int, name: bytes, dir_fd: int) -> None:
        """Sets the owner (only as root, like tar), mode and time of an entry."""
        if os.geteuid() == 0:
            os.chown(name, *self._dataset.owner(record), dir_fd=dir_fd, follow_symlinks=False)
        self._set_time(record, name, dir_fd)
        os.chmod(name, stat.S_IMODE(self._mode(record)), dir_fd=dir_fd)

    def _set_time(self, record: int, name: bytes, dir_fd: int) -> None:
        when = int(self._dataset.records[record]["mtime_ns"])
        os.utime(name, ns=(when, when), dir_fd=dir_fd, follow_symlinks=False)

    def _finish_directories(self, walk: list[int]) -> None:
        """Sets the owner, mode and time of directories, the deepest first, each through its parent:
        so a directory need not be entered after its mode forbids that."""
        for record in reversed(walk[1:]):
            fd, name = self._place(record)
            self._finish(record, name, fd)

    def finish_root(self) -> None:
        """Sets the owner, mode and time of the root. Call it after the root got its name, because
        moving a directory needs write permission on it."""
        self._finish(0, b".", self._walker.go_to(0))


def _walk_of(dataset: Dataset, wanted: list[int]) -> list[int]:
    """Returns the directories among the records in the order of a tree walk: parents first."""
    below: dict[int, list[int]] = {}
    for record in wanted:
        if record and stat.S_ISDIR(int(dataset.records[record]["mode"])):
            below.setdefault(int(dataset.records[record]["parent"]), []).append(record)
    walk: list[int] = []
    waiting = [0]
    while waiting:
        record = waiting.pop()
        walk.append(record)
        waiting += reversed(below.get(record, ()))
    return walk


class _Walker:
    """Keeps one directory of the new tree open, and moves from it to other directories step by
    step."""

    def __init__(self, dataset: Dataset, root: Path) -> None:
        self._dataset = dataset
        self._at = 0
        self._fd = os.open(root, _DIRECTORY)

    def close(self) -> None:
        os.close(self._fd)

    def name(self, record: int) -> bytes:
        """Returns the name of an entry. Raises DatasetDamaged if it is no safe file name."""
        name = self._dataset.basename(record)
        if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
            raise self._dataset.damaged(record, "name_offset", "not a name")
        return name

    def go_to(self, record: int) -> int:
        """Returns a descriptor of a directory, valid until the next call."""
        parents = self._dataset.records["parent"]
        up, down, target = 0, list[int](), record
        while self._at != target:  # a parent has a smaller number than its children
            if self._at > target:
                self._at = int(parents[self._at])
                up += 1
            else:
                down.append(target)
                target = int(parents[target])
        for _ in range(up):
            self._step(b"..")
        for child in reversed(down):
            self._step(self.name(child))
        self._at = record
        return self._fd

    def _step(self, name: bytes) -> None:
        fd = os.open(name, _DIRECTORY, dir_fd=self._fd)
        os.close(self._fd)
        self._fd = fd


def with_parents(dataset: Dataset, records: Iterable[int]) -> set[int]:
    """Returns the ids of the records, of all records below them, and of the directories above
    them."""
    chosen: set[int] = set()
    for record in records:
        waiting = [record]
        while waiting:
            at = waiting.pop()
            chosen.add(at)
            if stat.S_ISDIR(int(dataset.records[at]["mode"])):
                waiting += dataset.children(at)
        while record:
            parent = int(dataset.records[record]["parent"])
            if parent >= record:
                raise dataset.damaged(record, "parent", "not smaller than its child")
            chosen.add(parent)
            record = parent
    return chosen


def total_bytes(dataset: Dataset, records: Iterable[int]) -> int:
    """Returns how many bytes of content the records have."""
    rows = dataset.records[sorted(records)]
    return int(rows["logical_size"][are_files(rows)].sum())


def _check_destination(dataset: Dataset, destination: Path, force: bool) -> None:
    if destination.is_symlink() or (destination.exists() and not force):
        raise UsageError(f"{destination}: exists (--force replaces it)")
    if not destination.parent.is_dir():
        raise UsageError(f"{destination.parent}: no such directory")
    where, packed = destination.resolve(), dataset.directory.resolve()
    if is_within(packed, where):
        raise UsageError(f"{destination}: the dataset {dataset.directory} lies inside it")
    if is_within(where, packed):
        raise UsageError(f"{destination}: lies inside the dataset {dataset.directory}")


def extract(
    dataset: Dataset,
    destination: Path,
    records: Iterable[int],
    force: bool = False,
    advance: Callable[[int], object] = lambda amount_bytes: None,
) -> int:
    """Unpacks records to `destination`. Writes the tree beside it first, so that `destination`
    appears only when it is complete.

    Returns the number of records written. Raises UsageError if `destination` exists and not
    `force`, or if it and the dataset lie in one another; DatasetDamaged if a record is damaged;
    ExtractDamaged, with the names of the files, if content is damaged (the other files are
    written)."""
    _check_destination(dataset, destination, force)
    dataset.check_records()
    chosen = sorted(records)

    def work(made: Destination) -> Extractor:
        extractor = Extractor(dataset, made.directory, advance)
        try:
            extractor.extract(chosen)
            made.commit()
            extractor.finish_root()
        finally:
            extractor.close()
        return extractor

    extractor = make_whole(destination, force, work)
    if extractor.damaged:
        names = "\n  ".join(show_path(name) for name in sorted(extractor.damaged))
        raise ExtractDamaged(f"damaged, not extracted:\n  {names}")
    return len(chosen)
