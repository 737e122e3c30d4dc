"""Makes a dataset with very many files and little data, to measure start-up and large directories.

    make_index.py DST [--files N] [--per-directory N | --one-directory] [--size BYTES]
                  [--no-entries]

All files have the same content and share its bytes in one pack; otherwise the dataset is like any
other, including checksums. Paths are dir-00000000/file-00000000.bin, with numbers that go through
all directories. The index and the pack are filled piece by piece on the disk, so that memory does
not grow with N. With `--no-entries` the pack's footer has no entries, which saves 111 bytes per
file: jobs, `ls`, `info` and `verify` do not need them, `rebuild-index` and `prepare --update`
do."""

from __future__ import annotations

import argparse
import json
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from fanstore._native import dtype_of, lib
from fanstore.prepare.lookups import Sections, fill_lookups, lookup_counts, place_sections
from fanstore.prepare.room import ArrayRoom

FILE_NAME, DIRECTORY_NAME = b"file-00000000.bin", b"dir-00000000"
MTIME_NS = 1_500_000_000_123_456_789
ENTRY = dtype_of("struct fan_pack_entry")
NLINK_MAX = 65535
PIECE_FILES = 1 << 18
PIECE_BYTES = 1 << 24


@dataclass(frozen=True)
class Shape:
    """The number of files, and how many of them are in each directory except the last."""

    files: int
    per_directory: int

    @property
    def directories(self) -> int:
        return -(-self.files // self.per_directory)

    @property
    def records(self) -> int:
        return 1 + self.directories + self.files

    @property
    def names_bytes(self) -> int:
        return self.directories * len(DIRECTORY_NAME) + self.files * len(FILE_NAME)


def pieces(count: int) -> Iterator[np.ndarray]:
    """Yields the numbers from 0 to `count` - 1, some at a time."""
    for first in range(0, count, PIECE_FILES):
        yield np.arange(first, min(first + PIECE_FILES, count))


def checksum(data: Any) -> int:
    return int(xxhash.xxh3_64_intdigest(data))


def checksums(file: Any, first: int, last: int, *hashes: Any) -> None:
    """Adds the bytes `first` to `last` of an open file to checksums."""
    file.seek(first)
    for at in range(first, last, PIECE_BYTES):
        piece = file.read(min(PIECE_BYTES, last - at))
        for each in hashes:
            each.update(piece)


def numbered(form: bytes, numbers: np.ndarray) -> np.ndarray:
    """Returns rows of bytes: `form`, with its eight zeros replaced by each number."""
    rows = np.tile(np.frombuffer(form, np.uint8), (len(numbers), 1))
    at = form.index(b"00000000")
    for place in range(8):
        rows[:, at + 7 - place] = 48 + numbers // 10**place % 10
    return rows


def fill_directories(records: np.ndarray, names: np.ndarray, shape: Shape) -> None:
    """Fills in the records of the root and its directories, and their names."""
    root = records[0]
    root["offset"], root["stored_size"] = 1, shape.directories
    root["mtime_ns"], root["mode"] = MTIME_NS, 0o040755
    root["nlink"] = 2 + shape.directories if shape.directories <= NLINK_MAX - 2 else 1
    for numbers in pieces(shape.directories):
        rows = records[1 + numbers[0] : 2 + numbers[-1]]
        first = numbers * shape.per_directory
        rows["mtime_ns"], rows["mode"], rows["nlink"] = MTIME_NS, 0o040755, 2
        rows["offset"] = 1 + shape.directories + first
        rows["stored_size"] = np.minimum(shape.per_directory, shape.files - first)
        at = numbers * len(DIRECTORY_NAME)
        rows["name_offset"], rows["name_bytes"] = at, len(DIRECTORY_NAME)
        names[at[0] : at[-1] + len(DIRECTORY_NAME)] = numbered(DIRECTORY_NAME, numbers).ravel()


def fill_files(records: np.ndarray, names: np.ndarray, shape: Shape, content: bytes) -> None:
    """Fills in the records of the files, and their names."""
    before = 1 + shape.directories
    for numbers in pieces(shape.files):
        rows = records[before + numbers[0] : before + numbers[-1] + 1]
        rows["mtime_ns"], rows["mode"], rows["nlink"] = MTIME_NS, 0o100644, 1
        rows["parent"] = 1 + numbers // shape.per_directory
        rows["logical_size"] = rows["stored_size"] = len(content)
        rows["offset"], rows["checksum"] = lib.FAN_PACK_HEADER_BYTES, checksum(content)
        at = shape.directories * len(DIRECTORY_NAME) + numbers * len(FILE_NAME)
        rows["name_offset"], rows["name_bytes"] = at, len(FILE_NAME)
        names[at[0] : at[-1] + len(FILE_NAME)] = numbered(FILE_NAME, numbers).ravel()


def paths_of(shape: Shape, numbers: np.ndarray) -> np.ndarray:
    """Returns the files' paths, as rows of bytes."""
    parents = numbered(DIRECTORY_NAME + b"/", numbers // shape.per_directory)
    return np.hstack([parents, numbered(FILE_NAME, numbers)])


def footer_pieces(shape: Shape, content: bytes) -> Iterator[bytes]:
    """Yields the pieces of the pack's footer: an entry for each file, then the paths."""
    path_bytes = len(DIRECTORY_NAME) + 1 + len(FILE_NAME)
    for numbers in pieces(shape.files):
        entries = np.zeros(len(numbers), ENTRY)
        entries["logical_size"] = entries["stored_size"] = len(content)
        entries["offset"] = lib.FAN_PACK_HEADER_BYTES
        entries["checksum"] = checksum(content)
        entries["mtime_ns"], entries["mode"] = MTIME_NS, 0o100644
        entries["path_bytes"], entries["path_offset"] = path_bytes, numbers * path_bytes
        yield entries.tobytes()
    for numbers in pieces(shape.files):
        yield paths_of(shape, numbers).tobytes()


def write_pack(
    path: Path, shape: Shape, content: bytes, plan_id: bytes, has_entries: bool
) -> np.ndarray:
    """Writes the only pack, with an entry for every file or for none. Returns its row for the
    index."""
    header = np.zeros((), dtype_of("struct fan_pack_header"))
    header["magic"] = np.frombuffer(b"FANPACK\n", np.uint8)
    header["version"], header["layout_id"] = lib.FAN_FORMAT_VERSION, lib.FAN_PACK_LAYOUT_ID
    header["plan_id"] = np.frombuffer(plan_id, np.uint8)
    header["pack_count"], header["block_bytes"] = 1, 1 << 20
    header["checksum"] = checksum(header.tobytes()[:-8])
    front = header.tobytes().ljust(lib.FAN_PACK_HEADER_BYTES, b"\0") + content
    front += bytes(-len(front) % lib.FAN_DATA_ALIGN_BYTES)

    whole, footer, footer_bytes = xxhash.xxh3_64(front), xxhash.xxh3_64(), 0
    with path.open("wb") as file:
        file.write(front)
        for piece in footer_pieces(shape, content) if has_entries else ():
            file.write(piece)
            whole.update(piece)
            footer.update(piece)
            footer_bytes += len(piece)
        trailer = np.zeros((), dtype_of("struct fan_pack_trailer"))
        trailer["magic"] = np.frombuffer(b"FANPEND\n", np.uint8)
        entry_count = shape.files if has_entries else 0
        trailer["entries_offset"], trailer["entry_count"] = len(front), entry_count
        trailer["paths_offset"] = len(front) + entry_count * ENTRY.itemsize
        trailer["paths_bytes"] = footer_bytes - entry_count * ENTRY.itemsize
        trailer["footer_checksum"] = footer.intdigest()
        trailer["file_bytes"] = len(front) + footer_bytes + trailer.nbytes
        trailer["checksum"] = checksum(trailer.tobytes()[:-8])
        file.write(trailer.tobytes())
        whole.update(trailer.tobytes())

    info = np.zeros((), dtype_of("struct fan_pack_info"))
    info["file_bytes"], info["checksum"] = trailer["file_bytes"], whole.intdigest()
    info["entry_count"], info["logical_bytes"] = entry_count, shape.files * len(content)
    return info


def write_index(path: Path, shape: Shape, content: bytes, pack: np.ndarray, plan: bytes) -> None:
    """Writes the index: the header and the sections, each on its boundary."""
    header = np.zeros((), dtype_of("struct fan_index_header"))
    header["magic"] = np.frombuffer(b"FANINDX\n", np.uint8)
    header["version"], header["layout_id"] = lib.FAN_INDEX_VERSION, lib.FAN_INDEX_LAYOUT_ID
    header["section_count"] = lib.FAN_SECTION_COUNT
    header["plan_id"] = np.frombuffer(plan, np.uint8)
    header["record_count"], header["file_count"] = shape.records, shape.files
    header["directory_count"] = 1 + shape.directories
    header["logical_bytes"] = header["stored_bytes"] = shape.files * len(content)
    header["pack_count"], header["block_bytes"], header["codec_mask"] = 1, 1 << 20, 1
    header["flags"] = lib.FAN_INDEX_ALL_SEARCHABLE | lib.FAN_INDEX_ALL_READABLE
    counts = {
        lib.FAN_SECTION_RECORDS: shape.records, lib.FAN_SECTION_NAMES: shape.names_bytes,
        lib.FAN_SECTION_OWNERS: 1, lib.FAN_SECTION_PACKS: 1, **lookup_counts(shape.records),
    }  # fmt: skip
    header["file_bytes"] = place_sections(header, counts)
    with path.open("w+b") as file:
        file.truncate(int(header["file_bytes"]))
        with mmap.mmap(file.fileno(), 0) as mapping:
            fill_body(Sections(mapping, header), shape, content, pack, ArrayRoom(path.parent))
        body, dataset = xxhash.xxh3_64(), xxhash.xxh3_128()
        checksums(file, lib.FAN_INDEX_HEADER_BYTES, int(header["file_bytes"]), body, dataset)
        header["body_checksum"] = body.intdigest()
        header["dataset_id"] = np.frombuffer(dataset.digest(), np.uint8)
        header["header_checksum"] = checksum(header.tobytes()[:-8])
        file.seek(0)
        file.write(header.tobytes())


def fill_body(
    sections: Sections, shape: Shape, content: bytes, pack: np.ndarray, room: ArrayRoom
) -> None:
    """Fills the sections of the mapped index."""
    records = sections.array(lib.FAN_SECTION_RECORDS)
    names = sections.array(lib.FAN_SECTION_NAMES)
    fill_directories(records, names, shape)
    fill_files(records, names, shape, content)
    sections.array(lib.FAN_SECTION_PACKS)[0] = pack
    fill_lookups(room, sections)


def make_dataset(directory: Path, shape: Shape, content: bytes, has_entries: bool = True) -> None:
    """Writes the dataset. Raises FileExistsError if `directory` exists."""
    directory.mkdir()
    plan_id = xxhash.xxh3_128_digest(repr((shape, content)).encode())
    pack = write_pack(directory / "pack-00000.fsp", shape, content, plan_id, has_entries)
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
    parser.add_argument("--no-entries", action="store_true", help="leave the pack's footer empty")
    arguments = parser.parse_args()
    if not 0 < arguments.files <= 10**8:
        parser.error("--files is from 1 to 100,000,000: names have eight digits")
    per_directory = arguments.files if arguments.one_directory else arguments.per_directory
    content = np.random.default_rng(1).bytes(arguments.size)
    shape = Shape(arguments.files, per_directory)
    make_dataset(arguments.directory, shape, content, not arguments.no_entries)


if __name__ == "__main__":
    main()
