"""The sections of an index file, among them those for looking up paths; see docs/format.md."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fanstore._native import check, dtype_of, ffi, lib
from fanstore.arrays import np
from fanstore.prepare.plan import align_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.prepare.room import ArrayRoom

_KINDS = {
    lib.FAN_SECTION_RECORDS: "struct fan_record",
    lib.FAN_SECTION_SLOTS: "uint32_t",
    lib.FAN_SECTION_NAMES: "uint8_t",
    lib.FAN_SECTION_OWNERS: "struct fan_owner",
    lib.FAN_SECTION_LINKS: "struct fan_link",
    lib.FAN_SECTION_PACKS: "struct fan_pack_info",
    lib.FAN_SECTION_DENTRIES: "struct fan_dentry",
    lib.FAN_SECTION_PILOTS: "uint16_t",
    lib.FAN_SECTION_PARTS: "struct fan_part",
    lib.FAN_SECTION_TAGS: "uint8_t",
    lib.FAN_SECTION_MILESTONES: "uint64_t",
}


def lookup_counts(records: int) -> dict[int, int]:
    """Returns the lengths of the sections for looking up paths: 3 slots for every 2 records, and a
    milestone for every 64."""
    return {
        lib.FAN_SECTION_SLOTS: max((3 * records + 1) // 2, records + 1),
        lib.FAN_SECTION_MILESTONES: (records - 1) // lib.FAN_RECORDS_PER_MILESTONE + 2,
    }


def place_sections(header: Any, counts: Mapping[int, int]) -> int:
    """Fills the section table of a struct fan_index_header, given the lengths of the sections (0 if
    missing). Returns the size of the file in bytes."""
    end: int = lib.FAN_INDEX_HEADER_BYTES
    for kind, of in _KINDS.items():
        end = align_up(end, lib.FAN_SECTION_ALIGN_BYTES)
        header["sections"][kind] = (end, counts.get(kind, 0), kind, ffi.sizeof(of))
        end += counts.get(kind, 0) * ffi.sizeof(of)
    return align_up(end, lib.FAN_SECTION_ALIGN_BYTES)


class Sections:
    """The sections of an index file that is being written, mapped into memory."""

    def __init__(self, file: mmap.mmap, header: Any) -> None:
        self.file = file
        self.header = header

    def array(self, kind: int) -> NDArray[Any]:
        """Returns a section as an array, for writing."""
        offset, count, _, _ = self.header["sections"][kind]
        dtype = dtype_of(_KINDS[kind]) if "struct" in _KINDS[kind] else _KINDS[kind][:-2]
        return np.frombuffer(self.file, dtype, int(count), int(offset))

    def pointer(self, kind: int) -> Any:
        """Returns a section as a C pointer."""
        array = self.array(kind)
        return ffi.from_buffer(f"{_KINDS[kind]}[]", array) if len(array) else ffi.NULL


def fill_lookups(room: ArrayRoom, sections: Sections) -> None:
    """Fills the sections for looking up paths. Records and names must have been filled."""
    count = int(sections.header["sections"][lib.FAN_SECTION_RECORDS]["count"])
    hashes = room.zeros(count, np.uint64)
    named = ffi.new("struct fan_named *")
    named.records = sections.pointer(lib.FAN_SECTION_RECORDS)
    named.names = ffi.cast("char *", sections.pointer(lib.FAN_SECTION_NAMES))
    named.record_count = count
    named.names_bytes = len(sections.array(lib.FAN_SECTION_NAMES))
    named.path_hashes = ffi.from_buffer("uint64_t[]", hashes)
    check(lib.fan_hash_paths(named))
    probe = ffi.new("uint32_t *")
    slots = len(sections.array(lib.FAN_SECTION_SLOTS))
    check(lib.fan_fill_slots(named, sections.pointer(lib.FAN_SECTION_SLOTS), slots, probe))
    sections.header["max_probe"] = probe[0]
    lib.fan_fill_milestones(named, sections.pointer(lib.FAN_SECTION_MILESTONES))
