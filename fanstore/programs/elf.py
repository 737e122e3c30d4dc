"""Reads the parts of an ELF file that the kernel and the dynamic linker use: its program headers
and its dynamic section. Files may be damaged or hostile: every read is bounded, every loop ends."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

MAGIC = b"\x7fELF"
MACHINES = {3: "i386", 8: "mips", 20: "ppc", 21: "ppc64", 22: "s390", 40: "arm", 62: "x86_64",
            183: "aarch64", 243: "riscv", 258: "loongarch"}  # fmt: skip

_SEGMENTS_MAX = 1024
_DYNAMIC_BYTES_MAX = 1 << 16
_STRINGS_BYTES_MAX = 64 << 20
_NOTE_BYTES_MAX = 1 << 16

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP, _PT_NOTE = 1, 2, 3, 4
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_FLAGS_1 = 1, 5, 10, 0x6FFFFFFB
_DF_1_PIE = 0x08000000
_ET_EXEC, _ET_DYN = 2, 3
_GLIBC_VERSION = re.compile(rb"(?:^|\0)GLIBC_(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})?(?=\0)")


class Damaged(Exception):
    """The file begins as ELF but is damaged. The message says where."""


@dataclass(frozen=True)
class Elf:
    """The parts of an ELF file. machine: as printed by `uname -m`, or a number. bits: 32 or 64.
    interpreter: the loader's path, None if there is none. needed: the libraries it asks for. glibc:
    the newest version of glibc that it asks for. strings: the table with the names of its
    symbols."""

    machine: str
    bits: int
    executable: bool
    interpreter: str | None
    has_dynamic: bool
    needed: tuple[str, ...]
    glibc: tuple[int, int] | None
    is_go: bool
    strings: bytes

    def names(self, symbol: str) -> bool:
        """Returns whether the file defines or asks for a symbol."""
        return b"\0" + symbol.encode() + b"\0" in self.strings


@dataclass(frozen=True)
class _Segment:
    kind: int
    offset: int
    address: int
    file_bytes: int


class _Reader:
    """Reads numbers and bytes of one file, in the file's byte order and word size. Checks every
    bound."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        ident = self.bytes(0, 16, "the header")
        if ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise Damaged("damaged ELF file: no such class or byte order")
        self.bits = 32 * ident[4]
        self._order = "<" if ident[5] == 1 else ">"

    def bytes(self, offset: int, count: int, what: str) -> bytes:
        """Returns `count` bytes. Raises Damaged if the file is too short. what: their name in the
        message."""
        if offset < 0 or count < 0 or offset + count > self._size:
            raise Damaged(f"damaged ELF file: {what} lies beyond its end")
        self._file.seek(offset)
        found = self._file.read(count)
        if len(found) != count:
            raise Damaged(f"damaged ELF file: {what} is cut off")
        return found

    def numbers(self, form: str, offset: int, what: str) -> tuple[int, ...]:
        """Returns numbers in a format of the module struct; in it "W" is a word of the file's
        size."""
        form = self._order + form.replace("W", "Q" if self.bits == 64 else "I")
        return struct.unpack(form, self.bytes(offset, struct.calcsize(form), what))


def read(file: BinaryIO) -> Elf:
    """Reads the parts of an ELF file. Raises Damaged."""
    reader = _Reader(file)
    kind, machine, _, _, table, _, _, _, entry_bytes, count = reader.numbers(
        "HHIWWWIHHH", 16, "the header"
    )
    segments = list(_segments(reader, table, entry_bytes, count))
    interpreter = _interpreter(reader, segments)
    dynamic = _dynamic(reader, segments)
    strings = _strings(reader, segments, dynamic)
    found = [(int(a), int(b)) for a, b in _GLIBC_VERSION.findall(strings)]
    is_pie = any(tag == _DT_FLAGS_1 and value & _DF_1_PIE for tag, value in dynamic)
    return Elf(
        machine=MACHINES.get(machine, f"machine {machine}"),
        bits=reader.bits,
        executable=kind == _ET_EXEC or (kind == _ET_DYN and (interpreter is not None or is_pie)),
        interpreter=interpreter,
        has_dynamic=bool(dynamic),
        needed=tuple(_string(strings, value) for tag, value in dynamic if tag == _DT_NEEDED),
        glibc=max(found, default=None),
        is_go=any(b"Go\0\0" in note for note in _notes(reader, segments)),
        strings=strings,
    )


def _segments(reader: _Reader, table: int, entry_bytes: int, count: int) -> Iterator[_Segment]:
    wanted = 56 if reader.bits == 64 else 32
    if count == 0:
        return
    if entry_bytes != wanted or count > _SEGMENTS_MAX:
        raise Damaged("damaged ELF file: its program headers make no sense")
    for i in range(count):
        at = table + i * entry_bytes
        if reader.bits == 64:
            kind, _, offset, address, _, file_bytes = reader.numbers("IIQQQQ", at, "a segment")
        else:
            kind, offset, address, _, file_bytes = reader.numbers("IIIII", at, "a segment")
        yield _Segment(kind, offset, address, file_bytes)


def _interpreter(reader: _Reader, segments: list[_Segment]) -> str | None:
    for segment in segments:
        if segment.kind == _PT_INTERP:
            if segment.file_bytes > 4096:
                raise Damaged("damaged ELF file: its loader's name is too long")
            text = reader.bytes(segment.offset, segment.file_bytes, "its loader's name")
            return os.fsdecode(text.partition(b"\0")[0])
    return None


def _dynamic(reader: _Reader, segments: list[_Segment]) -> list[tuple[int, int]]:
    found = []
    entry_bytes = reader.bits // 4
    for segment in segments:
        if segment.kind != _PT_DYNAMIC:
            continue
        for at in range(0, min(segment.file_bytes, _DYNAMIC_BYTES_MAX), entry_bytes):
            tag, value = reader.numbers("WW", segment.offset + at, "its dynamic section")
            if tag == 0:
                break
            found.append((tag, value))
    return found


def _strings(reader: _Reader, segments: list[_Segment], dynamic: list[tuple[int, int]]) -> bytes:
    values = dict(dynamic)
    address, count = values.get(_DT_STRTAB), values.get(_DT_STRSZ, 0)
    if address is None or count == 0:
        return b""
    if count > _STRINGS_BYTES_MAX:
        raise Damaged("damaged ELF file: its table of names is too large")
    for segment in segments:
        inside = address - segment.address
        if segment.kind == _PT_LOAD and 0 <= inside < segment.file_bytes:
            return reader.bytes(segment.offset + inside, count, "its table of names")
    raise Damaged("damaged ELF file: its table of names is in no segment")


def _string(strings: bytes, at: int) -> str:
    if at >= len(strings):
        raise Damaged("damaged ELF file: a library's name lies outside its table")
    return os.fsdecode(strings[at : at + 4096].partition(b"\0")[0])


def _notes(reader: _Reader, segments: list[_Segment]) -> Iterator[bytes]:
    for segment in segments:
        if segment.kind == _PT_NOTE and segment.file_bytes <= _NOTE_BYTES_MAX:
            yield reader.bytes(segment.offset, segment.file_bytes, "a note")
