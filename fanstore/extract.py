"""Unpacking a dataset: the tree that was packed, with content, modes, times and links."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from fanstore.content import ContentDamaged, PackReader
from fanstore.dataset import Dataset
from fanstore.errors import FanstoreError, UsageError, show_path


class ExtractDamaged(FanstoreError):
    """Files whose content is damaged; they were left out."""

    exit_code = 3


class Extractor:
    """Writes records below a directory of our own making.

    Every file is made through a descriptor of its directory, so that no name can lead outside, and
    no path is too long. `advance` is told the bytes written.
    """

    def __init__(self, dataset: Dataset, root: Path, advance: Callable[[int], object]) -> None:
        self._dataset = dataset
        self._root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        self._advance = advance
        self._links = {int(link["record"]): int(link["first"]) for link in dataset.links}
        self._made: dict[int, int] = {}  # for a first name, the name that was made
        self.damaged: list[bytes] = []

    def close(self) -> None:
        os.close(self._root_fd)

    def extract(self, records: Iterable[int]) -> None:
        """Writes records, each after its parents, then sets the times of the directories."""
        wanted = sorted(set(records))
        content = [r for r in wanted if stat.S_ISREG(self._mode(r))]
        for record in wanted:
            if not stat.S_ISREG(self._mode(record)):
                self._make(record)
        for pack, ids in self._by_pack(content):
            with PackReader(self._dataset, pack, self._dataset.pack_path(pack)) as reader:
                for record in ids:
                    self._file(record, reader)
        for record in reversed(wanted):
            if stat.S_ISDIR(self._mode(record)):
                self._finish_directory(record)

    def _mode(self, record: int) -> int:
        return int(self._dataset.records[record]["mode"])

    def _by_pack(self, content: list[int]) -> Iterator[tuple[int, list[int]]]:
        packs = self._dataset.records["pack"]
        groups: dict[int, list[int]] = {}
        for record in content:
            groups.setdefault(int(packs[record]), []).append(record)
        for pack, ids in sorted(groups.items()):
            yield pack, sorted(ids, key=lambda r: (int(self._dataset.records[r]["offset"]), r))

    @contextlib.contextmanager
    def _directory(self, record: int) -> Iterator[int]:
        """A descriptor of the directory that is `record`."""
        fd = os.dup(self._root_fd)
        try:
            for name in self._dataset.relpath(record).split(b"/") if record else []:
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    def _place(self, record: int) -> tuple[int, bytes]:
        name = self._dataset.basename(record)
        if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
            raise self._dataset.damaged(record, "name_offset", "not a name")
        return int(self._dataset.records[record]["parent"]), name

    def _make(self, record: int) -> None:
        """A directory, open to us until all is in it, or a symbolic link."""
        if record == 0:
            return
        parent, name = self._place(record)
        with self._directory(parent) as fd:
            if stat.S_ISDIR(self._mode(record)):
                os.mkdir(name, 0o700, dir_fd=fd)
            else:
                os.symlink(self._dataset.target(record), name, dir_fd=fd)
                self._set_time(record, name, fd)

    def _file(self, record: int, reader: PackReader) -> None:
        parent, name = self._place(record)
        first = self._links.get(record, record)
        if first in self._made:
            self._link(self._made[first], parent, name)
            return
        with self._directory(parent) as fd:
            try:
                self._write(record, reader, name, fd)
            except ContentDamaged:
                os.unlink(name, dir_fd=fd)
                self.damaged.append(self._dataset.relpath(record))
                return
            self._made[first] = record
            self._set_owner(record, name, fd)
            os.chmod(name, stat.S_IMODE(self._mode(record)), dir_fd=fd)
            self._set_time(record, name, fd)

    def _write(self, record: int, reader: PackReader, name: bytes, dir_fd: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, 0o600, dir_fd=dir_fd), "wb") as out:
            for piece in reader.pieces(record):
                out.write(piece)
                self._advance(len(piece))

    def _link(self, made: int, parent: int, name: bytes) -> None:
        with (
            self._directory(int(self._dataset.records[made]["parent"])) as from_fd,
            self._directory(parent) as to_fd,
        ):
            source = self._dataset.basename(made)
            os.link(source, name, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)

    def _set_owner(self, record: int, name: bytes, dir_fd: int) -> None:
        """Owners are root's to give, as with tar."""
        if os.geteuid() == 0:
            os.chown(name, *self._dataset.owner(record), dir_fd=dir_fd, follow_symlinks=False)

    def _set_time(self, record: int, name: bytes, dir_fd: int) -> None:
        when = int(self._dataset.records[record]["mtime_ns"])
        os.utime(name, ns=(when, when), dir_fd=dir_fd, follow_symlinks=False)

    def _finish_directory(self, record: int) -> None:
        with self._directory(record) as fd:
            self._set_owner_fd(record, fd)
            os.fchmod(fd, stat.S_IMODE(self._mode(record)))
            when = int(self._dataset.records[record]["mtime_ns"])
            os.utime(fd, ns=(when, when))

    def _set_owner_fd(self, record: int, fd: int) -> None:
        if os.geteuid() == 0:
            os.fchown(fd, *self._dataset.owner(record))


def with_parents(dataset: Dataset, records: Iterable[int]) -> set[int]:
    """Records, all that lies below them, and the directories above them."""
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
    """The bytes of content that records hold."""
    rows = dataset.records[sorted(records)]
    regular = (rows["mode"] & 0o170000) == stat.S_IFREG
    return int(rows["logical_size"][regular].sum())


def extract(
    dataset: Dataset,
    destination: Path,
    records: Iterable[int],
    force: bool = False,
    advance: Callable[[int], object] = lambda amount_bytes: None,
) -> int:
    """Unpacks records to `destination`, which appears whole: it is written beside it first.

    Returns the number of records written. Raises UsageError when it exists and not `force`,
    DatasetDamaged when a record is not sound, ExtractDamaged naming the files whose content is
    damaged (the others are there).
    """
    if destination.is_symlink() or (destination.exists() and not force):
        raise UsageError(f"{destination}: exists (--force replaces it)")
    parent = destination.parent
    if not parent.is_dir():
        raise UsageError(f"{parent}: no such directory")
    dataset.check_records()
    scratch = parent / f".{destination.name}.{os.getpid()}.part"
    scratch.mkdir(0o700)
    chosen = sorted(records)
    try:
        extractor = Extractor(dataset, scratch, advance)
        try:
            extractor.extract(chosen)
        finally:
            extractor.close()
        if destination.exists():
            shutil.rmtree(destination)
        scratch.rename(destination)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    if extractor.damaged:
        names = "\n  ".join(show_path(name) for name in sorted(extractor.damaged))
        raise ExtractDamaged(f"damaged, not extracted:\n  {names}")
    return len(chosen)
