"""docs/format.md agrees with the compiled structs, the constants and the path hash."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from path_hashes import path_hash as library_hash

from fanstore._native import ffi, lib
from fanstore.table3 import layout

PAGE = Path(__file__).resolve().parents[2] / "docs" / "format.md"
TEXT = PAGE.read_text()
TYPES = {"u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "i64": "int64_t"}
ON_DISK = [
    "fan_pack_header", "fan_pack_entry", "fan_pack_trailer", "fan_index_header", "fan_section",
    "fan_record", "fan_owner", "fan_link", "fan_pack_info", "fan_dentry", "fan_part",
    "fan_trace_file_header", "fan_trace_section",
]  # fmt: skip
ENUMS = [
    "fan_codec", "fan_pack_flags", "fan_section_kind", "fan_index_flags",
    "fan_trace_section_kind",
]  # fmt: skip
MASK = (1 << 64) - 1


def section(heading: str) -> str:
    """The text from a heading to the next."""
    start = TEXT.index(f"\n{heading}")
    end = TEXT.find("\n#", start + 1)
    return TEXT[start : end if end >= 0 else len(TEXT)]


def rows(text: str) -> list[list[str]]:
    """The words of all lines of listings."""
    return [line.split() for line in text.splitlines() if line.startswith("    ")]


def constants() -> dict[str, int]:
    found = re.findall(r"^    (FAN_\w+) +(0x[0-9a-f]+|\d+)\b", TEXT, re.MULTILINE)
    return {name: int(value, 0) for name, value in found}


@pytest.mark.parametrize("name", ON_DISK)
def test_struct_tables_are_the_compiled_structs(name: str) -> None:
    ctype = ffi.typeof(f"struct {name}")
    text = section(f"### `struct {name}` ({ffi.sizeof(ctype)} bytes)")
    found = [(int(words[0]), words[2], words[1]) for words in rows(text) if words[0].isdigit()]
    expected = []
    for field, info in ctype.fields:
        match = re.fullmatch(r"(\w+|struct \w+)(\[\d+\])?", info.type.cname)
        assert match is not None
        base = next((k for k, v in TYPES.items() if v == match[1]), match[1].split()[0])
        expected.append((info.offset, field, base + (match[2] or "")))
    assert found == expected


def test_every_struct_on_disk_is_specified() -> None:
    assert set(re.findall(r"^### `struct (\w+)`", TEXT, re.MULTILINE)) == set(ON_DISK)


def test_constants_have_their_values() -> None:
    found = constants()
    assert {name: getattr(lib, name) for name in found} == found
    for enum in ENUMS:
        assert set(ffi.typeof(f"enum {enum}").relements) <= found.keys()


def test_magics_are_those_of_the_headers() -> None:
    formats = PAGE.parent.parent / "csrc" / "format"
    code = "".join((formats / f"{kind}_format.h").read_text() for kind in ("pack", "index"))
    magics = re.findall(r'_MAGIC "(\w+\\n)"', code)
    assert len(magics) == 3
    for magic in magics:
        assert f"`{magic}`" in TEXT


def fold(a: int, b: int) -> int:
    product = a * b
    return (product & MASK) ^ (product >> 64)


def path_hash(relpath: bytes, root: int, a: int, b: int) -> int:
    """The path hash, written from the page alone."""
    value = root
    for name in relpath.split(b"/") if relpath else []:
        value ^= len(name) * a & MASK
        whole = len(name) // 8 * 8
        for at in range(0, whole, 8):
            value = fold(value ^ int.from_bytes(name[at : at + 8], "little"), b)
        value = fold(value ^ int.from_bytes(name[whole:], "little"), a)
    return value


def test_path_hash_is_the_one_described() -> None:
    found = rows(section("### The path hash"))
    named = {words[0]: int(words[1], 16) for words in found if words[1].startswith("0x")}
    root, a, b = (named.pop(name) for name in ("ROOT", "A", "B"))
    assert len(named) >= 5
    for name, expected in named.items():
        relpath = b"" if name == "(root)" else name.encode()
        assert path_hash(relpath, root, a, b) == expected, name
        assert library_hash(relpath) == expected, name
    for length in range(1, 256):
        relpath = bytes((7 * n + length) % 200 + 48 for n in range(length)) + b"/\xff"
        expected = path_hash(relpath, root, a, b)
        assert library_hash(relpath) == expected, length


def test_table_3_is_the_layout_in_use() -> None:
    text = section("## The layout of Table 3")
    listed = [words for words in rows(text) if words[0].isdigit()]
    numbers = [(int(words[0]), int(words[1])) for words in listed]
    header, stat = numbers[:3], numbers[3:]
    for table, end in ((header, layout.HEADER_BYTES), (stat, layout.STAT_BYTES)):
        ends = [offset + size for offset, size in table]
        assert [0, *ends] == [*(offset for offset, _ in table), end]
    assert [offset for offset, _ in header] == [0, layout.STAT_AT, layout.COMPRESSED_AT]
    at = {words[2]: int(words[0]) for words in listed if words[2].startswith("st_")}
    made = layout.pack_file_header(layout.FileHeader(b"n", 11, 0o100644, 5_000_000_007, 3, 4, 9, 2))
    for field, value in {
        "st_ino": 9, "st_nlink": 2, "st_size": 11, "st_blocks": 1, "st_mtim": 5, "st_ctim": 5,
    }.items():  # fmt: skip
        assert struct.unpack_from("<q", made, layout.STAT_AT + at[field]) == (value,), field
    for field, value in {"st_mode": 0o100644, "st_uid": 3, "st_gid": 4}.items():
        assert struct.unpack_from("<I", made, layout.STAT_AT + at[field]) == (value,), field
