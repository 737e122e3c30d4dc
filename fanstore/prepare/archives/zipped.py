"""Reads zip archives through the standard library."""

from __future__ import annotations

import os
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, BinaryIO

from fanstore.prepare.archives.member import TARGET_MAX_BYTES, ArchiveBroken, Member

MAGICS = (b"PK\3\4", b"PK\5\6")

_UNIX = 3
_UTF8, _ENCRYPTED = 0x800, 0x1
_TIMES, _OWNERS = 0x5455, 0x7875
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)


def _name(info: zipfile.ZipInfo) -> bytes:
    """Returns a member's name as unzip does: the bytes that a zip program on Unix stored, or
    UTF-8."""
    name = info.orig_filename
    if info.flag_bits & _UTF8 or info.create_system != _UNIX:
        return name.encode("utf-8", "surrogateescape")
    return name.encode("cp437")  # undoes the decoding of zipfile, and so returns the stored bytes


def _extras(info: zipfile.ZipInfo) -> dict[int, bytes]:
    found, data = {}, info.extra
    while len(data) >= 4:
        kind, count = struct.unpack_from("<HH", data)
        found[kind] = data[4 : 4 + count]
        data = data[4 + count :]
    return found


def _mtime_ns(info: zipfile.ZipInfo, times: bytes) -> int:
    """Returns the exact modification time if it is stored; otherwise the stored date, taken as this
    machine's time zone, as unzip does."""
    if len(times) >= 5 and times[0] & 1:
        return int.from_bytes(times[1:5], "little", signed=True) * 10**9
    try:
        return int(time.mktime((*info.date_time, 0, 0, -1))) * 10**9
    except (OverflowError, ValueError):
        return 0


def _owner(owners: bytes) -> tuple[int, int]:
    """Returns the stored uid and gid, or those of this process if there are none."""
    ids: list[int] = []
    at = 1
    while len(ids) < 2 and at < len(owners):
        end = at + 1 + owners[at]
        ids.append(int.from_bytes(owners[at + 1 : end], "little"))
        at = end
    return (ids[0], ids[1]) if len(ids) == 2 else (os.geteuid(), os.getegid())


def _mode(info: zipfile.ZipInfo) -> int:
    stored = info.external_attr >> 16
    if info.orig_filename.endswith("/"):
        return stat.S_IFDIR | (stat.S_IMODE(stored) or 0o755)
    if info.create_system != _UNIX or not stored:
        return stat.S_IFREG | 0o644
    return stored if stat.S_IFMT(stored) else stat.S_IFREG | stored


class ZipReader:
    """Implements Reader for zip archives."""

    def __init__(self, raw: BinaryIO) -> None:
        self.remarks: list[tuple[bytes, str]] = []
        try:
            self._zip = zipfile.ZipFile(raw)
        except _BROKEN as error:
            raise ArchiveBroken(f"is a damaged or incomplete zip archive ({error})") from error
        self._info: zipfile.ZipInfo | None = None
        self._file: IO[bytes] | None = None

    def members(self) -> Iterator[Member]:
        for info in self._zip.infolist():
            self._info, self._file = info, None
            yield self._member(info)

    def _member(self, info: zipfile.ZipInfo) -> Member:
        extras = _extras(info)
        uid, gid = _owner(extras.get(_OWNERS, b""))
        when = _mtime_ns(info, extras.get(_TIMES, b""))
        member = Member(_name(info), _mode(info), info.file_size, when, uid, gid)
        if info.flag_bits & _ENCRYPTED:
            member.problem = "is encrypted"
        elif stat.S_ISLNK(member.mode):
            self._read_target(member)
        return member

    def _read_target(self, member: Member) -> None:
        """Sets the target of a symbolic link, which is stored as its content."""
        room = bytearray(min(member.size, TARGET_MAX_BYTES + 1))
        try:
            member.target = bytes(room[: self.read_into(memoryview(room))])
        except ArchiveBroken as error:
            member.problem = str(error)

    def read_into(self, buffer: memoryview) -> int:
        assert self._info is not None
        try:
            if self._file is None:
                self._file = self._zip.open(self._info)
            done = 0
            while done < len(buffer):
                data = self._file.read(len(buffer) - done)
                if not data:
                    break
                buffer[done : done + len(data)] = data
                done += len(data)
            return done
        except _BROKEN as error:
            raise ArchiveBroken(f"cannot be unpacked ({error})") from error
