"""A source that is a tar archive: plain, gzip or zstd. It is passed over twice, front to back:
for what it holds, and for the content."""

from __future__ import annotations

import os
import stat
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import zstandard

from fanstore.errors import UsageError
from fanstore.prepare.listed import normal_form
from fanstore.prepare.source import CHANGED, Unreadable
from fanstore.prepare.tree import Item, tree_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

_BROKEN = (tarfile.TarError, EOFError, OSError, zlib.error, zstandard.ZstdError)

_TYPES = {
    tarfile.FIFOTYPE: stat.S_IFIFO,
    tarfile.CHRTYPE: stat.S_IFCHR,
    tarfile.BLKTYPE: stat.S_IFBLK,
    tarfile.DIRTYPE: stat.S_IFDIR,
    tarfile.SYMTYPE: stat.S_IFLNK,
}


@contextmanager
def open_archive(path: Path) -> Iterator[tarfile.TarFile]:
    """Opens a tar archive for one pass. Raises UsageError when it is none."""
    with path.open("rb") as raw:
        magic = raw.read(4)
        raw.seek(0)
        stream: IO[bytes] | Any = raw
        mode = "r:"
        if magic.startswith(_GZIP_MAGIC):
            mode = "r|gz"
        elif magic == _ZSTD_MAGIC:
            mode = "r|"
            stream = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        try:
            archive: tarfile.TarFile = tarfile.open(  # type: ignore[call-overload]  # noqa: SIM115
                fileobj=stream, mode=mode, encoding="utf-8", errors="surrogateescape"
            )
        except tarfile.ReadError as error:
            raise UsageError(f"{path}: not a tar archive ({error})") from error
        with archive:
            yield archive


def mtime_ns_of(member: tarfile.TarInfo) -> int:
    """A member's modification time to the nanosecond, where the archive has it."""
    text = member.pax_headers.get("mtime")
    if text is not None:
        try:
            return int(Decimal(text) * 1_000_000_000)
        except (InvalidOperation, ValueError):
            pass
    return int(member.mtime * 1_000_000_000)


def _encode(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _item(member: tarfile.TarInfo, ordinal: int) -> Item:
    kind = _TYPES.get(member.type, stat.S_IFREG)
    target = _encode(member.linkname) if member.issym() else b""
    return Item(
        kind | (member.mode & 0o7777),
        len(target) if member.issym() else member.size if kind == stat.S_IFREG else 0,
        mtime_ns_of(member),
        member.uid,
        member.gid,
        target,
        ordinal,
    )


def _members(archive: tarfile.TarFile) -> Iterator[tuple[int, tarfile.TarInfo]]:
    """The members with their ordinals, none of them kept in memory."""
    ordinal = 0
    while (member := archive.next()) is not None:
        yield ordinal, member
        archive.members.clear()  # type: ignore[attr-defined]
        ordinal += 1


class Contents:
    """What the members of an archive make up, path by path.

    A later member of the same name replaces an earlier one; leading slashes are dropped;
    directories without a member get mode 0755 and the owner and time of what first needs them.
    """

    def __init__(self) -> None:
        self.items: dict[bytes, Item] = {}
        self.left_out: list[tuple[bytes, str]] = []

    def add(self, member: tarfile.TarInfo, ordinal: int) -> None:
        """Notes one member, or why it cannot be packed."""
        name = _encode(member.name)
        path = normal_form(name.lstrip(b"/"))
        item = self._linked(member) if member.islnk() else _item(member, ordinal)
        if path is None:
            self.left_out.append((name, "leads out of the archive"))
        elif item is None:
            self.left_out.append((name, f"is a link to {member.linkname}, which is not before it"))
        elif self._add_parents(path, item):
            self._put(path, item)

    def _put(self, path: bytes, item: Item) -> None:
        old = self.items.get(path)
        if old is not None and stat.S_ISDIR(old.mode) and not stat.S_ISDIR(item.mode):
            self.left_out.append((path, "would replace a directory"))
        else:
            self.items[path] = item

    def _linked(self, member: tarfile.TarInfo) -> Item | None:
        path = normal_form(_encode(member.linkname).lstrip(b"/"))
        found = self.items.get(path) if path else None
        return None if found is None or stat.S_ISDIR(found.mode) else found

    def _add_parents(self, path: bytes, item: Item) -> bool:
        missing = Item(stat.S_IFDIR | 0o755, 0, item.mtime_ns, item.uid, item.gid)
        at = 0 if path else -1
        while at >= 0:
            parent = self.items.setdefault(path[:at], missing)
            if not stat.S_ISDIR(parent.mode):
                self.left_out.append((path, "lies behind what is not a directory"))
                return False
            at = path.find(b"/", at + 1)
        return True


class ArchiveSource:
    """A tar archive. Content is read in the order of its members."""

    sequential = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._before = self._identity()
        contents = self._scan()
        self.left_out = contents.left_out
        self.tree = tree_of(contents.items)
        self._open = ExitStack()
        self._archive = self._open.enter_context(open_archive(self.path))
        self._members = _members(self._archive)
        self._file: IO[bytes] | None = None
        self._ordinal = -1

    def _identity(self) -> tuple[int, int, int, int]:
        found = self.path.stat()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def _scan(self) -> Contents:
        contents = Contents()
        try:
            with open_archive(self.path) as archive:
                for ordinal, member in _members(archive):
                    contents.add(member, ordinal)
        except _BROKEN as error:
            raise UsageError(f"{self.path}: not a sound tar archive ({error})") from error
        contents.items.setdefault(b"", Item(stat.S_IFDIR | 0o755))
        return contents

    def _content_of(self, number: int) -> IO[bytes]:
        """The content of an entry; never of one before the last asked for."""
        wanted = int(self.tree.ordinals[number])
        if self._ordinal != wanted:
            self._file = None
        while self._ordinal != wanted:
            self._ordinal, member = next(self._members, (wanted, None))
            if self._ordinal == wanted and member is not None and member.isreg():
                self._file = self._archive.extractfile(member)
        if self._file is None:
            raise Unreadable(CHANGED)
        return self._file

    def read_files(
        self, ids: Sequence[int], places: Sequence[int], buffer: memoryview
    ) -> dict[int, str]:
        failed = {}
        sizes = self.tree.entries["size"][list(ids)].tolist()
        for number, size, place, after in zip(ids, sizes, places, places[1:], strict=False):
            try:
                self.read_piece(number, 0, buffer[place : place + size])
            except Unreadable as error:
                failed[number] = str(error)
                size = 0
            buffer[place + size : after] = bytes(after - place - size)
        return failed

    def read_piece(self, number: int, start: int, buffer: memoryview) -> None:
        """Pieces of one file must follow each other, `start` is where the last one ended."""
        try:
            content = self._content_of(number)
            done = 0
            while done < len(buffer):
                data = content.read(len(buffer) - done)
                if not data:
                    raise Unreadable(CHANGED)
                buffer[done : done + len(data)] = data
                done += len(data)
            if self._identity() != self._before:
                raise Unreadable(CHANGED)
        except _BROKEN as error:
            raise Unreadable(str(error)) from error

    def try_open(self) -> dict[int, str]:
        """None: the one file that holds all is open."""
        return {}

    def keep(self, mask: NDArray[np.bool_]) -> None:
        self.tree = self.tree.filtered(mask)

    def close(self) -> None:
        self._open.close()
