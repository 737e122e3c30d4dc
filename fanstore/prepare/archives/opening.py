"""Telling what an archive is, by its first bytes, and opening it for one pass."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, cast

import lz4.frame
import zstandard

from fanstore.prepare.archives.foreign import ForeignReader
from fanstore.prepare.archives.member import ArchiveBroken, Reader
from fanstore.prepare.archives.tar import BLOCK_BYTES, TarReader, is_header
from fanstore.prepare.archives.zipped import MAGICS, ZipReader

# What unpacking may raise for damaged bytes, beside ArchiveBroken.
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
    """A stream of the bytes without their compression, from the start."""
    raw.seek(0)
    for start, opened in _FILTERS.items():
        if magic.startswith(start):
            return cast(BinaryIO, opened(raw))
    return raw


def _is_tar(stream: BinaryIO) -> bool:
    try:
        first = stream.read(BLOCK_BYTES)
    except BROKEN:
        return False  # told by the reader
    return is_header(first) or (len(first) == BLOCK_BYTES and not any(first))


def open_reader(raw: BinaryIO) -> Reader:
    """A reader from the start of an archive, a seekable file. Raises ArchiveBroken."""
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
