"""The bytes of a plan file: a header, a table of sections, and the sections (docs/format.md).

A file is untrusted: every allocation is bounded by the file's own size, and no section is used
before its checksum was compared.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import xxhash

from fanstore.errors import FanstoreError, UsageError
from fanstore.exit_codes import DAMAGED

MAGIC = b"FANPLAN\n"
VERSION = 1
DESCRIPTION, KEPT, READS = range(3)  # kinds of sections
KIND_NAMES = ("description", "kept", "reads")
DESCRIPTION_MAX_BYTES = 64 << 20

HEADER = struct.Struct("<8sIIQQ")  # magic, version, sections, bytes of the file, checksum
ENTRY = struct.Struct("<IIQQ")  # kind, number, bytes, checksum
_CHECKED_BYTES = HEADER.size - 8  # the header's bytes before its checksum, which covers them


class PlanDamaged(FanstoreError):
    """A plan file is damaged. The message names the part, its offset and the reason."""

    exit_code = DAMAGED

    def __init__(self, file: Path, what: str, offset: int, reason: str) -> None:
        super().__init__(f"{file}: {what} at offset {offset}: {reason}; make the plan again")


@dataclass(frozen=True)
class PlanSection:
    """The position of a section in the file. checksum: XXH3-64 of its bytes."""

    kind: int
    number: int
    offset: int
    size: int
    checksum: int

    @property
    def name(self) -> str:
        """The section's name in messages."""
        return f"{KIND_NAMES[self.kind]}[{self.number}]"


def write_container(
    stream: BinaryIO, sections: Iterable[tuple[int, int, bytes]], count: int
) -> None:
    """Writes `count` sections (kind, number, content) to a new file, one after the other."""
    table = bytearray()
    stream.seek(HEADER.size + count * ENTRY.size)
    for kind, number, content in sections:
        table += ENTRY.pack(kind, number, len(content), xxhash.xxh3_64_intdigest(content))
        stream.write(content)
    head = HEADER.pack(MAGIC, VERSION, count, stream.tell(), 0)[:_CHECKED_BYTES]
    stream.seek(0)
    stream.write(head + xxhash.xxh3_64_digest(head + table)[::-1] + table)


class PlanContainer:
    """An open plan file, whose header and table were checked. Close it when done."""

    def __init__(self, path: Path) -> None:
        """Raises PlanDamaged, UsageError for another version, OSError."""
        self.path = path
        self._stream = path.open("rb")
        try:
            self.sections = self._table()
        except BaseException:
            self._stream.close()
            raise

    def _table(self) -> list[PlanSection]:
        size = os.fstat(self._stream.fileno()).st_size
        head = self._stream.read(HEADER.size)
        if len(head) < HEADER.size or head[: len(MAGIC)] != MAGIC:
            raise PlanDamaged(self.path, "header.magic", 0, "not a plan of FanStore")
        _, version, count, file_bytes, checksum = HEADER.unpack(head)
        if version != VERSION:
            raise UsageError(
                f"{self.path}: header.version is {version}; allowed: {VERSION} (another FanStore "
                "made it: make the plan again)"
            )
        if file_bytes != size:
            reason = f"{file_bytes:,}, and the file has {size:,} bytes"
            raise PlanDamaged(self.path, "header.file_bytes", 16, reason)
        if HEADER.size + count * ENTRY.size > size:
            raise PlanDamaged(self.path, "header.section_count", 12, f"{count:,} are too many")
        table = self._stream.read(count * ENTRY.size)
        if checksum != xxhash.xxh3_64_intdigest(head[:_CHECKED_BYTES] + table):
            raise PlanDamaged(self.path, "header.checksum", 24, "the checksum does not match")
        return self._sections(table, size)

    def _sections(self, table: bytes, file_bytes: int) -> list[PlanSection]:
        sections: list[PlanSection] = []
        offset = HEADER.size + len(table)
        for kind, number, size, checksum in ENTRY.iter_unpack(table):
            at = HEADER.size + len(sections) * ENTRY.size
            if kind >= len(KIND_NAMES):
                raise PlanDamaged(self.path, "table.kind", at, f"{kind} is unknown")
            sections.append(PlanSection(kind, number, offset, size, checksum))
            offset += size
        if offset != file_bytes:
            raise PlanDamaged(self.path, "table", HEADER.size, "sections do not fill the file")
        return sections

    def check_kinds(self, expected: Sequence[tuple[int, int]]) -> None:
        """Raises PlanDamaged unless the file has exactly the sections `expected`, each given by
        kind and number."""
        found = [(each.kind, each.number) for each in self.sections]
        if found != expected:
            reason = f"{len(found):,} sections, which are not the {len(expected):,} of the job"
            raise PlanDamaged(self.path, "table", HEADER.size, reason)

    def read(self, section: PlanSection) -> bytes:
        """Returns the content of a section. Raises PlanDamaged, OSError."""
        self._stream.seek(section.offset)
        content = self._stream.read(section.size)
        if len(content) != section.size or section.checksum != xxhash.xxh3_64_intdigest(content):
            reason = "the checksum does not match"
            raise PlanDamaged(self.path, section.name, section.offset, reason)
        return content

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()
