"""Making archives that no tool would make."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass


def tar_of(*members: tuple[tarfile.TarInfo, bytes], end: bool = True) -> bytes:
    """A pax archive of members with their contents; without `end`, no end mark."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
        size = archive.offset
    return out.getvalue() if end else out.getvalue()[:size]


def member(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "",
    **fields: object,
) -> tuple[tarfile.TarInfo, bytes]:  # fmt: skip
    """A member with its content, and fields of its header as given."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, len(content), 0o644
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def block_of(name: bytes, size: bytes = b"0", kind: bytes = b"0", **at: bytes) -> bytes:
    """A header made by hand; `at123=...` puts bytes at a place."""
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108] = b"0000644\0"
    block[108:116] = block[116:124] = b"0000000\0"
    block[124 : 124 + len(size)] = size
    block[136:148] = b"00000000000\0"
    block[156:157] = kind
    block[257:265] = b"ustar  \0"
    for place, value in at.items():
        start = int(place.removeprefix("at"))
        block[start : start + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def pax_block(*records: tuple[str, str]) -> bytes:
    """A pax header with records."""
    data = b""
    for key, value in records:
        text = f" {key}={value}\n".encode()
        size = len(text)
        while size != len(text) + len(str(size)):
            size = len(text) + len(str(size))
        data += str(size).encode() + text
    padded = data + bytes(-len(data) % 512)
    return block_of(b"pax", b"%o" % len(data), b"x") + padded


END = bytes(1024)


@dataclass
class Cpio:
    """A file of a cpio archive."""

    name: bytes
    mode: int
    content: bytes = b""
    ino: int = 0
    nlink: int = 1
    mtime: int = 1_500_000_000


def cpio_of(files: Iterable[Cpio]) -> bytes:
    """A cpio archive in the form `newc`."""
    out = b""
    for number, file in enumerate([*files, Cpio(b"TRAILER!!!", 0, mtime=0)]):
        fields = (
            file.ino or number + 1, file.mode, 0, 0, file.nlink, file.mtime, len(file.content),
            0, 0, 0, 0, len(file.name) + 1, 0,
        )  # fmt: skip
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + file.name + b"\0"
        out += bytes(-len(out) % 4) + file.content
        out += bytes(-len(out) % 4)
    return out
