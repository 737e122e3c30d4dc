"""An archive as a source. It is read twice from front to back: first to list its members, then for
their content."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import shutil
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import lz4.frame
import zstandard

from fanstore.errors import FanstoreError, UsageError, show_path
from fanstore.prepare.archives.foreign import ForeignReader
from fanstore.prepare.archives.member import ArchiveBroken, Member, Reader
from fanstore.prepare.archives.tar import BLOCK_BYTES, TarReader, is_header
from fanstore.prepare.archives.zipped import MAGICS, ZipReader
from fanstore.prepare.listed import normal_form
from fanstore.prepare.source import CHANGED, STDIN, SequentialSource, Unreadable
from fanstore.prepare.tree import Item, add_parents, tree_of

# The exceptions that unpacking may raise for damaged bytes.
BROKEN = (
    ArchiveBroken, EOFError, OSError, RuntimeError, zlib.error, lzma.LZMAError,
    zstandard.ZstdError,
)  # fmt: skip


def _unzstd(raw: BinaryIO) -> BinaryIO:
    stream: Any = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    return cast(BinaryIO, stream)


_FILTERS: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
    b"\x28\xb5\x2f\xfd": _unzstd,
    b"\x04\x22\x4d\x18": lz4.frame.open,
}


def _unpacked(raw: BinaryIO, magic: bytes) -> BinaryIO:
    """Returns a stream of the decompressed bytes of `raw`, from its start."""
    raw.seek(0)
    for start, opened in _FILTERS.items():
        if magic.startswith(start):
            return cast(BinaryIO, opened(raw))
    return raw


# How the names of archives end.
NAME_END = re.compile(
    r"\.(zip|7z|iso|rar|rpm|t[gx]z|tbz2?|tzst|(tar|cpio)(\.(gz|bz2|xz|zst|lz4|lz|lzma|Z))?)$", re.I
)
# The first bytes of cpio, 7-Zip, RAR and RPM; and those of an ISO 9660 image's first descriptor.
_FOREIGN = (
    b"070701", b"070702", b"070707", b"\xc7\x71", b"\x71\xc7", b"7z\xbc\xaf", b"Rar!\x1a\x07",
    b"\xed\xab\xee\xdb",
)  # fmt: skip
_ISO, _ISO_AT = b"CD001", 0x8001


def is_archive(path: Path) -> bool:
    """Returns whether a file is an archive, by the end of its name or by its first bytes. (One that
    is damaged there, and is not named as an archive, is a file like others.)"""
    if NAME_END.search(path.name):
        return True
    with path.open("rb") as raw:
        magic = raw.read(8)
        if magic.startswith((*MAGICS, *_FOREIGN)):
            return True
        raw.seek(_ISO_AT)
        if raw.read(len(_ISO)) == _ISO:
            return True
        try:
            return is_header(_unpacked(raw, magic).read(BLOCK_BYTES))
        except BROKEN:
            return False


def _is_tar(stream: BinaryIO) -> bool:
    try:
        first = stream.read(BLOCK_BYTES)
    except BROKEN:
        return False  # the reader reports the problem
    return is_header(first) or (len(first) == BLOCK_BYTES and not any(first))


def open_reader(raw: BinaryIO) -> Reader:
    """Returns a reader from the start of an archive, a seekable file. Raises ArchiveBroken."""
    raw.seek(0)
    magic = raw.read(8)
    if not magic:
        raise ArchiveBroken("is empty, so is no archive")
    if magic.startswith(MAGICS):
        raw.seek(0)
        return ZipReader(raw)
    if _is_tar(_unpacked(raw, magic)):
        return TarReader(_unpacked(raw, magic))
    return ForeignReader(raw)


_COPY_NAME = "source"


class ArchiveContents:
    """The tree that the members of an archive form, by path.

    A later member of the same name replaces an earlier one, and leading slashes are dropped. A
    directory that is no member gets mode 0755, and owner and time of the first member in it."""

    def __init__(self) -> None:
        self.items: dict[bytes, Item] = {}
        self.left_out: list[tuple[bytes, str]] = []

    def add(self, member: Member, ordinal: int) -> None:
        """Adds one member to `items`, or to `left_out` with the reason if it cannot be packed."""
        reason = member.refusal() or self._place(member, ordinal)
        if reason is not None:
            self.left_out.append((member.name, reason))

    def _place(self, member: Member, ordinal: int) -> str | None:
        path = normal_form(member.name.lstrip(b"/"))
        if path is None:
            return "leads out of the archive"
        if not path and (member.is_link or not stat.S_ISDIR(member.mode)):
            return "has no name"
        item = self._linked(member, ordinal) if member.is_link else _item(member, ordinal)
        if item is None:
            return f"is a link to {show_path(member.target)}, which is not a file before it"
        return add_parents(self.items, path, item) or self._put(path, item)

    def _put(self, path: bytes, item: Item) -> str | None:
        old = self.items.get(path)
        if old is not None and stat.S_ISDIR(old.mode) and not stat.S_ISDIR(item.mode):
            return "would replace a directory"
        self.items[path] = item
        return None

    def _linked(self, member: Member, ordinal: int) -> Item | None:
        path = normal_form(member.target.lstrip(b"/"))
        found = self.items.get(path) if path else None
        if found is None or stat.S_ISDIR(found.mode):
            return None
        # cpio stores the content with the last of the names
        if member.size > 0 and stat.S_ISREG(found.mode):
            found.size, found.ordinal = member.size, ordinal
        return found


def _item(member: Member, ordinal: int) -> Item:
    link, regular = stat.S_ISLNK(member.mode), stat.S_ISREG(member.mode)
    return Item(
        member.mode,
        len(member.target) if link else member.size if regular else 0,
        member.mtime_ns,
        member.uid,
        member.gid,
        member.target if link else b"",
        ordinal,
    )


def _open(path: Path, place: Path) -> BinaryIO:
    """Opens the archive as a seekable file. If it is a pipe, first copies its content to
    `place`."""
    if path == STDIN:
        if sys.stdin is None or sys.stdin.isatty():
            raise UsageError("-: standard input is a terminal, or closed; an archive is wanted")
        return _copied(sys.stdin.buffer, place)
    raw = path.open("rb")
    kind = stat.S_IFMT(os.fstat(raw.fileno()).st_mode)
    if kind == stat.S_IFREG:
        return raw
    with raw:
        if kind != stat.S_IFIFO:
            raise UsageError(f"{path}: neither a directory nor an archive")
        return _copied(raw, place)


def _copied(raw: BinaryIO, place: Path) -> BinaryIO:
    copy = (place / _COPY_NAME).open("w+b")
    try:
        (place / _COPY_NAME).unlink()
        shutil.copyfileobj(raw, copy, 1 << 20)
        copy.flush()
    except OSError as error:
        copy.close()
        what = f"copying the archive from a pipe to {place.parent}: {error.strerror}"
        raise FanstoreError(what) from error
    except BaseException:
        copy.close()
        raise
    return cast(BinaryIO, copy)


class ArchiveSource(SequentialSource):
    """An archive of any format for which there is a Reader. Content is read in the order of the
    members. place: a directory for the copy of a pipe's content."""

    def __init__(self, path: Path, place: Path) -> None:
        self._path = path
        self._raw = _open(path, place)
        try:
            self._before = self._identity()
            contents = self._scan()
            self.left_out = contents.left_out
            self.tree = tree_of(contents.items)
            self._reader = open_reader(self._raw)
        except BaseException:
            self._raw.close()
            raise
        self._ordinals = self._walk()
        self._ordinal = -1

    def _identity(self) -> tuple[int, int]:
        found = os.fstat(self._raw.fileno())
        return found.st_size, found.st_mtime_ns

    def _scan(self) -> ArchiveContents:
        contents = ArchiveContents()
        try:
            reader = open_reader(self._raw)
            for ordinal, member in enumerate(reader.members()):
                contents.add(member, ordinal)
            contents.left_out += reader.remarks
        except BROKEN as error:
            # the disk's error, not damage in the archive
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise UsageError(f"{self._path}: {_sentence(error)}") from error
        contents.items.setdefault(b"", Item(stat.S_IFDIR | 0o755))
        return contents

    def _walk(self) -> Iterator[int]:
        for ordinal, _ in enumerate(self._reader.members()):
            yield ordinal

    def _go_to(self, number: int) -> None:
        """Moves to the content of an entry. The entries must be asked for in the order of the
        members."""
        wanted = self.tree.ordinal(number)
        while self._ordinal < wanted:
            found = next(self._ordinals, None)
            if found is None:
                raise Unreadable(CHANGED)
            self._ordinal = found

    def read_piece(self, number: int, start: int, buffer: memoryview) -> None:
        """Reads a piece of one file into `buffer`. `start` must be the end of the last piece read
        of that file. Raises Unreadable."""
        try:
            self._go_to(number)
            done = self._reader.read_into(buffer)
        except BROKEN as error:
            raise Unreadable(_sentence(error)) from error
        if self._identity() != self._before:
            raise Unreadable(CHANGED)
        if done < len(buffer):
            size = int(self.tree.entries["size"][number])
            raise Unreadable(f"holds {start + done:,} bytes; the archive says {size:,}")

    def close(self) -> None:
        self._raw.close()


def _sentence(error: BaseException) -> str:
    return str(error) or "ends too early"
