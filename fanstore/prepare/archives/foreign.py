"""Reads cpio, 7-Zip, ISO 9660 and RAR archives through libarchive."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

from fanstore._native import archives
from fanstore.prepare.archives.member import ArchiveBroken, Member

_BLOCK_BYTES = 1 << 20
_NEEDED = (
    "is neither a tar nor a zip archive; others are read with libarchive, which is not here: "
    "pip install 'fanstore-fs[archives]', or the system's package (libarchive13, libarchive)"
)


class ForeignReader:
    """Implements Reader through libarchive."""

    def __init__(self, raw: BinaryIO) -> None:
        self.remarks: list[tuple[bytes, str]] = []
        try:
            self._lib = archives.libarchive()
        except OSError as error:
            raise ArchiveBroken(_NEEDED) from error
        self._archive = archives.ffi.gc(self._lib.archive_read_new(), self._lib.archive_read_free)
        for name in (*archives.FILTERS, *archives.FORMATS):
            kind = "filter" if name in archives.FILTERS else "format"
            getattr(self._lib, f"archive_read_support_{kind}_{name}")(self._archive)
        self._last = b""
        self._start_content()
        self._raw = raw  # a reference, which keeps the file open
        os.lseek(raw.fileno(), 0, os.SEEK_SET)
        if self._lib.archive_read_open_fd(self._archive, raw.fileno(), _BLOCK_BYTES) != 0:
            raise ArchiveBroken(f"cannot be read as an archive ({self._reason()})")

    def _start_content(self) -> None:
        self._at = 0
        self._block = memoryview(b"")
        self._block_at = 0

    def _reason(self) -> str:
        text = self._lib.archive_error_string(self._archive)
        return _bytes(text).decode(errors="replace") if text else "unknown"

    def members(self) -> Iterator[Member]:
        entry = archives.ffi.new("struct archive_entry **")
        while True:
            rc = self._lib.archive_read_next_header(self._archive, entry)
            if rc == archives.EOF:
                return
            if rc < archives.WARN:
                where = f" behind {self._last.decode(errors='replace')}" if self._last else ""
                raise ArchiveBroken(f"cannot be read as an archive{where} ({self._reason()})")
            self._start_content()
            member = self._member(entry[0], "" if rc == archives.OK else self._reason())
            self._last = member.name
            yield member

    def _text(self, entry: Any, what: str) -> bytes:
        """Returns a name of an entry: the stored bytes, or UTF-8 if libarchive cannot return
        those."""
        for suffix in ("", "_utf8"):
            found = getattr(self._lib, f"archive_entry_{what}{suffix}")(entry)
            if found:
                return _bytes(found)
        return b""

    def _member(self, entry: Any, warning: str) -> Member:
        lib = self._lib
        member = Member(
            self._text(entry, "pathname"),
            lib.archive_entry_mode(entry),
            lib.archive_entry_size(entry),
            lib.archive_entry_mtime(entry) * 10**9 + lib.archive_entry_mtime_nsec(entry),
            lib.archive_entry_uid(entry),
            lib.archive_entry_gid(entry),
        )
        link = self._text(entry, "hardlink")
        member.is_link = bool(link)
        member.target = link or self._text(entry, "symlink")
        if not stat.S_IFMT(member.mode):
            member.mode |= stat.S_IFREG
        if lib.archive_entry_is_encrypted(entry):
            member.problem = "is encrypted"
        elif not member.name:
            member.problem = f"has a name that cannot be read ({warning})"
        elif stat.S_ISREG(member.mode) and not lib.archive_entry_size_is_set(entry) and not link:
            member.size = self._measure()
        return member

    def _measure(self) -> int:
        """Reads to the end of the content, because the header states no size. Returns the size."""
        while self._next_block():
            self._at = self._block_at + len(self._block)
        return self._at

    def _next_block(self) -> bool:
        """Reads the next run of stored bytes. Returns False at the end of the content."""
        ffi = archives.ffi
        data, count, offset = ffi.new("void **"), ffi.new("size_t *"), ffi.new("int64_t *")
        rc = self._lib.archive_read_data_block(
            self._archive, ffi.cast("const void **", data), count, offset
        )
        if rc < archives.WARN:
            raise ArchiveBroken(f"cannot be unpacked ({self._reason()})")
        self._block_at = offset[0]
        if rc == archives.EOF:
            self._block = memoryview(b"")
            return False
        self._block = memoryview(ffi.buffer(data[0], count[0]))
        return True

    def read_into(self, buffer: memoryview) -> int:
        done = 0
        while done < len(buffer):
            start = self._at - self._block_at
            if start >= len(self._block):
                if not self._next_block():
                    return done + self._zeros(buffer[done:], self._block_at - self._at)
                continue
            if start < 0:  # the run begins behind a hole
                count = self._zeros(buffer[done:], -start)
            else:
                piece = self._block[start : start + len(buffer) - done]
                buffer[done : done + len(piece)] = piece
                count = len(piece)
                self._at += count
            done += count
        return done

    def _zeros(self, buffer: memoryview, wanted: int) -> int:
        count = max(0, min(wanted, len(buffer)))
        buffer[:count] = bytes(count)
        self._at += count
        return count


def _bytes(text: Any) -> bytes:
    found: bytes = archives.ffi.string(text)
    return found
