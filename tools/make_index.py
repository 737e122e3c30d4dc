"""Makes a dataset with very many files and little data, to measure start-up and large directories.

    make_index.py DST [--files N] [--per-directory N | --one-directory] [--size BYTES]

All files have the same content and share its bytes in one pack; otherwise the dataset is like any
other, checksums and all. Paths: dir-00000000/file-00000000.bin, numbered through.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from fanstore._native import check, dtype_of, ffi, lib

FILE_NAME, DIRECTORY_NAME = b"file-00000000.bin", b"dir-00000000"
MTIME_NS = 1_500_000_000_123_456_789
ENTRY = dtype_of("struct fan_pack_entry")


@dataclass(frozen=True)
class Shape:
    """How many files, and how many of them in each directory but the last."""

    files: int
    per_directory: int

    @property
    def directories(self) -> int:
        return -(-self.files // self.per_directory)


def checksum(data: Any) -> int:
    return int(xxhash.xxh3_64_intdigest(data))


def numbered(form: bytes, count: int) -> np.ndarray:
    """`count` rows of bytes: `form` with its eight zeros replaced by 0, 1, ..."""
    rows = np.tile(np.frombuffer(form, np.uint8), (count, 1))
    at = form.index(b"00000000")
    numbers = np.arange(count)
    for place in range(8):
        rows[:, at + 7 - place] = 48 + numbers // 10**place % 10
    return rows


def make_records(shape: Shape, content: bytes) -> tuple[np.ndarray, bytes]:
    """Records in the order of ids (root, directories, files), and the names section."""
    directories, files = shape.directories, shape.files
    records = np.zeros(1 + directories + files, dtype_of("struct fan_record"))
    root, dirs, regular = records[0], records[1 : 1 + directories], records[1 + directories :]
    records["mtime_ns"] = MTIME_NS
    records["mode"][: 1 + directories] = 0o040755
    records["nlink"][: 1 + directories] = 2
    root["offset"], root["stored_size"] = 1, directories
    root["nlink"] = 2 + directories
    first = np.arange(directories) * shape.per_directory
    dirs["offset"] = 1 + directories + first
    dirs["stored_size"] = np.minimum(shape.per_directory, files - first)
    dirs["name_offset"] = np.arange(directories) * len(DIRECTORY_NAME)
    dirs["name_bytes"] = len(DIRECTORY_NAME)
    regular["mode"], regular["nlink"] = 0o100644, 1
    regular["parent"] = 1 + np.arange(files) // shape.per_directory
    regular["name_offset"] = directories * len(DIRECTORY_NAME) + np.arange(files) * len(FILE_NAME)
    regular["name_bytes"] = len(FILE_NAME)
    regular["logical_size"] = regular["stored_size"] = len(content)
    regular["offset"] = lib.FAN_PACK_HEADER_BYTES
    regular["checksum"] = checksum(content)
    names = numbered(DIRECTORY_NAME, directories).tobytes()
    names += numbered(FILE_NAME, files).tobytes()
    return records, names


def write_pack(path: Path, shape: Shape, content: bytes, plan_id: bytes) -> np.ndarray:
    """The only pack, with an entry for every file; its row for the index."""
    header = np.zeros((), dtype_of("struct fan_pack_header"))
    header["magic"] = np.frombuffer(b"FANPACK\n", np.uint8)
    header["version"], header["layout_id"] = lib.FAN_FORMAT_VERSION, lib.FAN_PACK_LAYOUT_ID
    header["plan_id"] = np.frombuffer(plan_id, np.uint8)
    header["pack_count"], header["block_bytes"] = 1, 1 << 20
    header["checksum"] = checksum(header.tobytes()[:-8])
    front = header.tobytes().ljust(lib.FAN_PACK_HEADER_BYTES, b"\0") + content
    front += bytes(-len(front) % lib.FAN_DATA_ALIGN_BYTES)

    file_names = numbered(FILE_NAME, shape.files)
    parents = numbered(DIRECTORY_NAME + b"/", shape.directories)
    paths = np.hstack([np.repeat(parents, shape.per_directory, 0)[: shape.files], file_names])
    entries = np.zeros(shape.files, ENTRY)
    entries["logical_size"] = entries["stored_size"] = len(content)
    entries["offset"] = lib.FAN_PACK_HEADER_BYTES
    entries["checksum"] = checksum(content)
    entries["mtime_ns"], entries["mode"] = MTIME_NS, 0o100644
    entries["path_bytes"] = paths.shape[1]
    entries["path_offset"] = np.arange(shape.files) * paths.shape[1]
    footer = entries.tobytes() + paths.tobytes()

    trailer = np.zeros((), dtype_of("struct fan_pack_trailer"))
    trailer["magic"] = np.frombuffer(b"FANPEND\n", np.uint8)
    trailer["entries_offset"], trailer["entry_count"] = len(front), shape.files
    trailer["paths_offset"], trailer["paths_bytes"] = len(front) + entries.nbytes, paths.nbytes
    trailer["footer_checksum"] = checksum(footer)
    trailer["file_bytes"] = len(front) + len(footer) + trailer.nbytes
    trailer["checksum"] = checksum(trailer.tobytes()[:-8])
    whole = front + footer + trailer.tobytes()
    path.write_bytes(whole)

    info = np.zeros((), dtype_of("struct fan_pack_info"))
    info["file_bytes"], info["checksum"] = len(whole), checksum(whole)
    info["entry_count"], info["logical_bytes"] = shape.files, shape.files * len(content)
    return info


def make_slots(records: np.ndarray, names: bytes) -> tuple[np.ndarray, int]:
    """The hash table (3 slots for 2 records) and its longest probe."""
    slots = np.zeros(len(records) * 3 // 2 + 1, "<u8")
    longest = ffi.new("uint32_t *")
    rc = lib.fan_core_fill_slots(
        ffi.cast("struct fan_record *", ffi.from_buffer(records)),
        len(records),
        names,
        len(names),
        ffi.cast("uint64_t *", ffi.from_buffer(slots)),
        len(slots),
        longest,
    )
    check(rc)
    return slots, longest[0]


def write_index(path: Path, shape: Shape, content: bytes, pack: np.ndarray, plan: bytes) -> None:
    """The index: header and sections, each on its boundary."""
    records, names = make_records(shape, content)
    slots, longest = make_slots(records, names)
    owners = np.zeros(1, dtype_of("struct fan_owner"))
    links = np.zeros(0, dtype_of("struct fan_link"))
    name_bytes = np.frombuffer(names, np.uint8)
    sections = [records, slots, name_bytes, owners, links, pack.reshape(1)]

    header = np.zeros((), dtype_of("struct fan_index_header"))
    header["magic"] = np.frombuffer(b"FANINDX\n", np.uint8)
    header["version"], header["layout_id"] = lib.FAN_FORMAT_VERSION, lib.FAN_INDEX_LAYOUT_ID
    header["plan_id"] = np.frombuffer(plan, np.uint8)
    header["record_count"], header["file_count"] = len(records), shape.files
    header["directory_count"] = 1 + shape.directories
    header["logical_bytes"] = header["stored_bytes"] = shape.files * len(content)
    header["pack_count"], header["block_bytes"], header["codec_mask"] = 1, 1 << 20, 1
    header["max_probe"] = longest
    header["flags"] = lib.FAN_INDEX_ALL_SEARCHABLE | lib.FAN_INDEX_ALL_READABLE
    header["section_count"] = lib.FAN_SECTION_COUNT
    body = bytearray()
    for kind, section in enumerate(sections):
        body += bytes(-len(body) % lib.FAN_SECTION_ALIGN_BYTES)
        offset = lib.FAN_INDEX_HEADER_BYTES + len(body)
        header["sections"][kind] = (offset, len(section), kind, section.itemsize)
        body += section.tobytes()
    header["file_bytes"] = lib.FAN_INDEX_HEADER_BYTES + len(body)
    header["body_checksum"] = checksum(body)
    header["dataset_id"] = np.frombuffer(xxhash.xxh3_128_digest(body), np.uint8)
    header["header_checksum"] = checksum(header.tobytes()[:-8])
    with path.open("wb") as file:
        file.write(header.tobytes())
        file.write(body)


def make_dataset(directory: Path, shape: Shape, content: bytes) -> None:
    """Writes the dataset. FileExistsError when there is something."""
    directory.mkdir()
    plan_id = xxhash.xxh3_128_digest(repr((shape, content)).encode())
    pack = write_pack(directory / "pack-00000.fsp", shape, content, plan_id)
    write_index(directory / "index.fsi", shape, content, pack, plan_id)
    manifest = {"made_by": "tools/make_index.py", "files": shape.files, "size": len(content)}
    (directory / "manifest.json").write_text(json.dumps(manifest) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, metavar="DST")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--per-directory", type=int, default=1000, metavar="N")
    parser.add_argument("--one-directory", action="store_true")
    parser.add_argument("--size", type=int, default=1000, metavar="BYTES", help="of each file")
    arguments = parser.parse_args()
    per_directory = arguments.files if arguments.one_directory else arguments.per_directory
    content = np.random.default_rng(1).bytes(arguments.size)
    make_dataset(arguments.directory, Shape(arguments.files, per_directory), content)


if __name__ == "__main__":
    main()
