"""The sections of a kept trace. Each is compressed and has a checksum of its own, so that a file
can be read up to its first damage (docs/format.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import xxhash

from fanstore._native import ffi, lib
from fanstore.errors import FanstoreError

# The sources for which programs wait, in the order of enum fan_stall_source.
SOURCES = tuple(
    name.removeprefix("FAN_STALL_").lower()
    for _, name in sorted(ffi.typeof("enum fan_stall_source").elements.items())
    if name != "FAN_STALL_SOURCES"
)

MAGIC = b"FANTRAC\n"
_HEADER_BYTES = ffi.sizeof("struct fan_trace_file_header")
_SECTION_BYTES = ffi.sizeof("struct fan_trace_section")
_STORED_BYTES_MAX = int(lib.FAN_TRACE_SECTION_BYTES_MAX) + (1 << 20)
_LEVEL = 1


class TraceDamaged(FanstoreError):
    """A kept trace cannot be read beyond some offset."""


@dataclass(frozen=True)
class TraceSection:
    """A section of a kept trace. kind: FAN_TRACE_*; rank: the rank that wrote it."""

    kind: int
    rank: int
    content: bytes


def _checked(header: Any) -> bytes:
    """Returns the bytes of a header, whose last field is set to the checksum of the bytes before
    it."""
    raw = bytes(ffi.buffer(header))
    return raw[:-8] + xxhash.xxh3_64_intdigest(raw[:-8]).to_bytes(8, "little")


def file_header() -> bytes:
    """Returns the header of a kept trace."""
    header = ffi.new("struct fan_trace_file_header *")
    header.magic = MAGIC
    header.version = lib.FAN_TRACE_VERSION
    header.layout_id = lib.FAN_TRACE_LAYOUT_ID
    return _checked(header)


def encode(section: TraceSection) -> bytes:
    """Returns the bytes of a section in a file. Its content has at most FAN_TRACE_SECTION_BYTES_MAX
    bytes."""
    import zstandard

    if len(section.content) > lib.FAN_TRACE_SECTION_BYTES_MAX:
        raise ValueError(f"{len(section.content):,} bytes are too many for a section")
    stored = zstandard.ZstdCompressor(level=_LEVEL).compress(section.content)
    header = ffi.new("struct fan_trace_section *")
    header.magic = lib.FAN_TRACE_SECTION_MAGIC
    header.kind, header.rank = section.kind, section.rank
    header.bytes, header.stored_bytes = len(section.content), len(stored)
    header.content_checksum = xxhash.xxh3_64_intdigest(stored)
    return _checked(header) + stored


def read_sections(stream: BinaryIO, name: str) -> Iterator[TraceSection]:
    """Yields the sections of a kept trace. Raises TraceDamaged at the first one that cannot be
    read; the sections before it are undamaged."""
    _check_header(stream.read(_HEADER_BYTES), name)
    at = _HEADER_BYTES
    while raw := stream.read(_SECTION_BYTES):
        where = f"{name}: at byte {at:,}"
        header = _section_header(raw, where)
        stored = stream.read(header.stored_bytes)
        if len(stored) < header.stored_bytes:
            raise TraceDamaged(f"{where}: the file is cut off")
        yield TraceSection(int(header.kind), int(header.rank), _content(header, stored, where))
        at += len(raw) + len(stored)


def _check_header(raw: bytes, name: str) -> None:
    if raw[:8] != MAGIC:
        raise TraceDamaged(f"{name}: not a trace of FanStore's")
    if len(raw) < _HEADER_BYTES or not _is_sound(raw):
        raise TraceDamaged(f"{name}: its first {_HEADER_BYTES} bytes are damaged")
    header = ffi.from_buffer("struct fan_trace_file_header *", raw)
    own = (int(lib.FAN_TRACE_VERSION), int(lib.FAN_TRACE_LAYOUT_ID))
    if (header.version, header.layout_id) != own:
        raise TraceDamaged(
            f"{name}: a trace of version {header.version} (layout {header.layout_id:#x}); this "
            f"FanStore reads version {own[0]} (layout {own[1]:#x})"
        )


def _is_sound(raw: bytes) -> bool:
    return xxhash.xxh3_64_intdigest(raw[:-8]) == int.from_bytes(raw[-8:], "little")


def _section_header(raw: bytes, where: str) -> Any:
    if len(raw) < _SECTION_BYTES:
        raise TraceDamaged(f"{where}: the file is cut off")
    header = ffi.new("struct fan_trace_section *")
    ffi.memmove(header, raw, _SECTION_BYTES)
    sane = (
        header.magic == lib.FAN_TRACE_SECTION_MAGIC
        and _is_sound(raw)
        and header.bytes <= lib.FAN_TRACE_SECTION_BYTES_MAX
        and header.stored_bytes <= _STORED_BYTES_MAX
    )
    if not sane:
        raise TraceDamaged(f"{where}: the header of a section is damaged")
    return header


def _content(header: Any, stored: bytes, where: str) -> bytes:
    import zstandard

    if xxhash.xxh3_64_intdigest(stored) != header.content_checksum:
        raise TraceDamaged(f"{where}: the content of a section is damaged")
    try:
        if zstandard.frame_content_size(stored) != header.bytes:
            raise TraceDamaged(f"{where}: a section is not as long as its header says")
        return zstandard.ZstdDecompressor().decompress(stored)
    except zstandard.ZstdError as error:
        raise TraceDamaged(f"{where}: a section cannot be decompressed: {error}") from None
