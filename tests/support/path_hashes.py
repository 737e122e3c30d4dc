"""The hashes of paths, as the library makes them for an index."""

from __future__ import annotations

from fanstore._native import check, ffi, lib


def path_hash(relpath: bytes) -> int:
    """Returns the hash of a relpath in normal form, b"" for the root: that of the last record of an
    index in which each component of the path is the only child of the one before it."""
    names = relpath.split(b"/") if relpath else []
    records = ffi.new("struct fan_record[]", len(names) + 1)
    hashes = ffi.new("uint64_t[]", len(names) + 1)
    text = ffi.new("char[]", b"".join(names))
    offset = 0
    for number, name in enumerate(names, 1):
        record = records[number]
        record.parent, record.name_offset, record.name_bytes = number - 1, offset, len(name)
        offset += len(name)
    named = ffi.new("struct fan_named *", [records, text, len(names) + 1, offset, hashes])
    check(lib.fan_hash_paths(named))
    return int(hashes[len(names)])
