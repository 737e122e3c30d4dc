"""Reads tar archives: ustar, GNU and pax, with their sparse files.

Reports damaged headers, impossible sizes and a missing end of the archive. (The standard library's
reader treats a damaged header as the end of the archive.)
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from typing import BinaryIO

from fanstore.errors import show_path
from fanstore.prepare.archives.member import ArchiveBroken, Member
from fanstore.prepare.archives.sparse import Segments, map_of_old_gnu, map_of_pax, read_map

BLOCK_BYTES = 512
# The largest size of a long name or of a set of pax records.
_EXTENDED_MAX_BYTES = 16 << 20
_SKIP_BYTES = 1 << 20
_SIZE_MAX = 1 << 62
_ZERO_BLOCK = bytes(BLOCK_BYTES)

_KINDS = {
    b"2": stat.S_IFLNK,
    b"3": stat.S_IFCHR,
    b"4": stat.S_IFBLK,
    b"5": stat.S_IFDIR,
    b"6": stat.S_IFIFO,
    b"D": stat.S_IFDIR,
}
_REGULAR = (b"0", b"\0", b"7", b"S")
_WITHOUT_DATA = (b"1", b"2", b"3", b"4", b"5", b"6")
_EXTENDED = (b"x", b"X", b"g", b"L", b"K")

_TIME = re.compile(rb"(-?)(\d{1,30})(?:\.(\d*))?")
_WHOLE = re.compile(rb"-?\d{1,30}")


def is_header(block: bytes) -> bool:
    """Returns whether a block is a tar header: whether its checksum is right."""
    if len(block) != BLOCK_BYTES or block == _ZERO_BLOCK:
        return False
    stored = _number(block[148:156])
    rest = block[:148] + b" " * 8 + block[156:]
    if stored == sum(rest):
        return True
    # some old tars sum signed bytes
    return stored == sum(byte - 256 * (byte > 127) for byte in rest)


def _number(field: bytes) -> int | None:
    """Returns the value of a numeric field, in octal digits or base 256; None if it is neither."""
    if field[0] & 0x80:
        value = int.from_bytes(field, "big", signed=True)
        return value if field[0] == 0xFF else value + (1 << (8 * len(field) - 1))
    digits = field.partition(b"\0")[0].strip()
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        return None


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _pax_time_ns(text: bytes) -> int | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    sign, whole, part = found.groups(b"")
    value = int(whole) * 10**9 + int(part[:9].ljust(9, b"0"))
    return -value if sign else value


def _pax_records(data: bytes) -> list[tuple[bytes, bytes]]:
    """Returns the records `length key=value` of a pax header. Raises ArchiveBroken."""
    records = []
    at = 0
    while at < len(data) and data[at]:
        head = data[at : at + 20].partition(b" ")[0]
        end = at + int(head) if head.isdigit() else 0
        key, equals, value = data[at + len(head) + 1 : end - 1].partition(b"=")
        if not at < end <= len(data) or not equals or data[end - 1 : end] != b"\n":
            raise ArchiveBroken("a pax header holds what is no record")
        records.append((key, value))
        at = end
    return records


class _Stream:
    """Reads a file from front to back; `at` is the offset of the next byte."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.at = 0

    def read(self, count: int) -> bytes:
        """Returns `count` bytes, fewer only at the end."""
        data = self._raw.read(count)
        while 0 < len(data) < count:
            more = self._raw.read(count - len(data))
            if not more:
                break
            data += more
        self.at += len(data)
        return data

    def skip(self, count: int) -> bool:
        """Skips `count` bytes; returns False if there are fewer."""
        if count > _SIZE_MAX:  # a larger offset is an error in seek
            return False
        if count > _SKIP_BYTES and self._raw.seekable():
            self._raw.seek(count - 1, 1)
            self.at += count - 1
            count = 1
        while count:
            got = len(self.read(min(count, _SKIP_BYTES)))
            if not got:
                return False
            count -= got
        return True


class TarReader:
    """Implements Reader for uncompressed tar archives."""

    def __init__(self, raw: BinaryIO) -> None:
        self.remarks: list[tuple[bytes, str]] = []
        self._stream = _Stream(raw)
        self._global: dict[bytes, bytes] = {}
        self._last = b""
        self._left = 0  # bytes of the last member's data and padding that are still to be read
        self._segments = Segments([], 0)

    def members(self) -> Iterator[Member]:
        while (block := self._next_header()) is not None:
            records: list[tuple[bytes, bytes]] = []
            while block[156:157] in _EXTENDED:
                self._extend(block, records)
                block = self._next_header()
                if block is None:
                    raise self._broken("ends behind the extended header of a member")
            member = self._member(block, records)
            if member is not None:
                self._last = member.name
                yield member

    def read_into(self, buffer: memoryview) -> int:
        return self._segments.read_into(buffer, self._data)

    def _broken(self, what: str) -> ArchiveBroken:
        behind = f", behind {show_path(self._last)}" if self._last else ""
        return ArchiveBroken(f"{what} (byte {self._stream.at:,}{behind})")

    def _data(self, count: int) -> bytes:
        data = self._stream.read(count)
        self._left -= len(data)
        return data

    def _next_header(self) -> bytes | None:
        """Returns the next header; None at the end of the archive."""
        if not self._stream.skip(self._left):
            raise self._broken("is cut off within the content of a member")
        self._left = 0
        block = self._stream.read(BLOCK_BYTES)
        if block == _ZERO_BLOCK:
            self._look_behind_the_end()
            return None
        if not block:
            self.remarks.append(
                (self._last, "is followed by nothing, not even an end mark: the rest may be lost")
            )
            return None
        if len(block) < BLOCK_BYTES:
            raise self._broken("is cut off within a header")
        if not is_header(block):
            raise self._broken("has no header where one should be, so is damaged")
        return block

    def _look_behind_the_end(self) -> None:
        while block := self._stream.read(BLOCK_BYTES):
            if is_header(block):
                at = self._stream.at - BLOCK_BYTES
                why = f"is followed by an end mark, and by another archive at byte {at:,}"
                self.remarks.append((self._last, f"{why} (tar -A joins archives; cat does not)"))
                return

    def _size(self, block: bytes) -> int:
        size = _number(block[124:136])
        if size is None or not 0 <= size < 1 << 63:
            name = show_path(_text(block[:100]))
            raise self._broken(f"has a header with an impossible size for {name}")
        return size

    def _extend(self, block: bytes, records: list[tuple[bytes, bytes]]) -> None:
        """Reads the extended headers, which come before a member's own header."""
        size = self._size(block)
        if size > _EXTENDED_MAX_BYTES:
            raise self._broken(f"has an extended header of {size:,} bytes")
        data = self._stream.read(size)
        if len(data) < size or not self._stream.skip(-size % BLOCK_BYTES):
            raise self._broken("is cut off within an extended header")
        kind = block[156:157]
        if kind in (b"L", b"K"):
            records.append((b"path" if kind == b"L" else b"linkpath", _text(data)))
        elif kind == b"g":
            self._global.update(_pax_records(data))
        else:
            records += _pax_records(data)

    def _member(self, block: bytes, records: list[tuple[bytes, bytes]]) -> Member | None:
        """Makes a member from its header and the pax records before it. Returns None if the header
        describes no member."""
        pax = {**self._global, **dict(records)}
        kind = block[156:157]
        size = self._pax_size(block, pax)
        if kind in _WITHOUT_DATA:
            size = 0
        self._left = size + -size % BLOCK_BYTES
        name = pax.get(b"GNU.sparse.name") or pax.get(b"path") or self._name(block)
        if kind in (b"A", b"V"):
            return None
        member = Member(name, target=pax.get(b"linkpath") or _text(block[157:257]))
        self._fill(member, block, pax)
        if kind in (b"0", b"\0") and name.endswith(b"/"):
            kind = b"5"
        if kind == b"1":
            member.is_link = True
        elif kind in _KINDS:
            member.mode |= _KINDS[kind]
        elif kind in _REGULAR:
            member.mode |= stat.S_IFREG
            self._content(member, block, size, records, pax)
        else:
            member.problem = _why_not(kind)
        return member

    def _name(self, block: bytes) -> bytes:
        name = _text(block[:100])
        prefix = _text(block[345:476] if block[508:] == b"tar\0" else block[345:500])
        return prefix + b"/" + name if prefix and block[257:263] == b"ustar\0" else name

    def _pax_size(self, block: bytes, pax: dict[bytes, bytes]) -> int:
        text = pax.get(b"size")
        if text is None:
            return self._size(block)
        if not text.isdigit() or len(text) > 30 or int(text) >= 1 << 63:
            raise self._broken("has a pax header with an impossible size")
        return int(text)

    def _fill(self, member: Member, block: bytes, pax: dict[bytes, bytes]) -> None:
        """Sets a member's mode, owner and time."""
        found = {
            "mode": _number(block[100:108]),
            "uid": _either(pax.get(b"uid"), block[108:116]),
            "gid": _either(pax.get(b"gid"), block[116:124]),
        }
        text = pax.get(b"mtime")
        whole = _number(block[136:148])
        time_ns = _pax_time_ns(text) if text else None if whole is None else whole * 10**9
        for what, value in {**found, "time": time_ns}.items():
            if value is None:
                member.problem = f"has a {what} that is no number"
        member.mode = (found["mode"] or 0) & 0o7777
        member.uid, member.gid = found["uid"] or 0, found["gid"] or 0
        member.mtime_ns = time_ns or 0

    def _content(
        self, member: Member, block: bytes, size: int, records: list[tuple[bytes, bytes]],
        pax: dict[bytes, bytes],
    ) -> None:  # fmt: skip
        """Sets the segments and the size of a member that is a regular file."""
        try:
            if block[156:157] == b"S":
                places, member.size = map_of_old_gnu(block, self._more_map, _number)
            elif pax.get(b"GNU.sparse.major") == b"1":
                places, member.size = read_map(self._map_block), int(pax[b"GNU.sparse.realsize"])
                size = self._left - (-size % BLOCK_BYTES)
            elif b"GNU.sparse.size" in pax:
                places, member.size = map_of_pax(records), int(pax[b"GNU.sparse.size"])
            else:
                places, member.size = [(0, size)], size
            self._segments = Segments.checked(places, member.size, size)
        except (ValueError, KeyError) as error:
            name = show_path(member.name)
            raise self._broken(f"has a wrong map of the sparse file {name}") from error

    def _map_block(self) -> bytes:
        if self._left < BLOCK_BYTES:
            raise ValueError
        return self._data(BLOCK_BYTES)

    def _more_map(self) -> bytes:
        """Reads a block of an old GNU sparse map. The map lies before the data and does not count
        in its size."""
        return self._stream.read(BLOCK_BYTES)


def _either(text: bytes | None, field: bytes) -> int | None:
    if text:
        return int(text) if _WHOLE.fullmatch(text) else None
    return _number(field)


def _why_not(kind: bytes) -> str:
    if kind == b"M":
        return "goes on from another volume of the archive"
    return f"is of the kind {show_path(kind)!r}, which is not known"
