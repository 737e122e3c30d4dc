"""Opening a dataset: its index mapped and checked, its packs described.

A dataset is a directory with index.fsi, pack-00000.fsp ... and manifest.json. docs/format.md
specifies the files.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash

from fanstore._native import dtype_of, ffi, lib
from fanstore.arrays import np
from fanstore.errors import DatasetDamaged, FanstoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

INDEX_NAME = "index.fsi"
MANIFEST_NAME = "manifest.json"

_HEADER_BYTES: int = lib.FAN_INDEX_HEADER_BYTES
_PACK_HEADER_BYTES: int = lib.FAN_PACK_HEADER_BYTES
_PACK_MAGIC = b"FANPACK\n"
_TRAILER_MAGIC = b"FANPEND\n"
_PATH_ROOM = 65536


def pack_name(pack: int) -> str:
    """The file name of a pack: pack-00000.fsp."""
    return f"pack-{pack:05d}.fsp"


@dataclass(frozen=True)
class PackInfo:
    """What the index says of one pack. `checksum` is XXH3-64 of the whole file."""

    pack: int
    file_bytes: int
    checksum: int
    entry_count: int
    logical_bytes: int
    flags: int

    @property
    def everywhere(self) -> bool:
        """Whether every node keeps this pack."""
        return bool(self.flags & lib.FAN_PACK_EVERYWHERE)


class Dataset:
    """An index in memory and where its packs are. Use open_dataset; close when done."""

    def __init__(self, directory: Path, index_path: Path, mapping: mmap.mmap) -> None:
        self.directory = directory
        self.name = directory.resolve().name
        self.index_path = index_path
        self._mapping = mapping
        self._buffer = ffi.from_buffer(mapping)
        self._bytes = len(mapping)
        self._check_header()
        self.header: np.void = np.frombuffer(mapping, dtype_of("struct fan_index_header"), 1)[0]
        self.records = self._section(lib.FAN_SECTION_RECORDS, dtype_of("struct fan_record"))
        self.slots = self._section(lib.FAN_SECTION_SLOTS, np.dtype("<u8"))
        self.names = self._section(lib.FAN_SECTION_NAMES, np.dtype("u1"))
        self.owners = self._section(lib.FAN_SECTION_OWNERS, dtype_of("struct fan_owner"))
        self.links = self._section(lib.FAN_SECTION_LINKS, dtype_of("struct fan_link"))
        self._packs = self._section(lib.FAN_SECTION_PACKS, dtype_of("struct fan_pack_info"))

    def _check_header(self) -> None:
        field = ffi.new("const char **")
        offset = ffi.new("uint64_t *")
        if lib.fan_core_index_check(self._buffer, self._bytes, field, offset) != 0:
            name = ffi.string(field[0]).decode()
            raise DatasetDamaged(self.index_path, name, offset[0], "not a valid value")
        at = _HEADER_BYTES - 8
        self._check_sum("header.header_checksum", at, slice(0, at))

    def _check_sum(self, field: str, at: int, part: slice) -> None:
        stored = int.from_bytes(self._mapping[at : at + 8], "little")
        with memoryview(self._mapping) as view, view[part] as covered:
            actual = xxhash.xxh3_64_intdigest(covered)
        if stored != actual:
            reason = f"{actual:016x} found, {stored:016x} expected"
            raise DatasetDamaged(self.index_path, field, at, reason)

    def _section(self, kind: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        section = self.header["sections"][kind]
        count, offset = int(section["count"]), int(section["offset"])
        return np.frombuffer(self._mapping, dtype, count, offset) if count else np.empty(0, dtype)

    def check_body(self) -> None:
        """Checks the checksum over all sections. Raises DatasetDamaged."""
        self._check_sum("header.body_checksum", _HEADER_BYTES - 16, slice(_HEADER_BYTES, None))

    def check_records(self) -> None:
        """Checks the fields of every record, for those who go through them all.
        Raises DatasetDamaged for the first that is not sound."""
        record = ffi.new("uint64_t *")
        field = ffi.new("const char **")
        if lib.fan_core_check_records(self._buffer, self._bytes, record, field) != 0:
            raise self.damaged(record[0], ffi.string(field[0]).decode(), "not a valid value")

    @property
    def dataset_id(self) -> str:
        """32 hexadecimal digits, equal for equal content."""
        return bytes(self.header["dataset_id"]).hex()

    @property
    def plan_id(self) -> bytes:
        """The 16 bytes that tie each pack to its index."""
        return bytes(self.header["plan_id"])

    @property
    def pack_count(self) -> int:
        return len(self._packs)

    @property
    def block_bytes(self) -> int:
        return int(self.header["block_bytes"])

    def pack_path(self, pack: int) -> Path:
        """Where a pack lies in the dataset's directory."""
        return self.directory / pack_name(pack)

    def pack_info(self, pack: int) -> PackInfo:
        """What the index says of a pack."""
        row = self._packs[pack]
        names = ("file_bytes", "checksum", "entry_count", "logical_bytes", "flags")
        return PackInfo(pack, *(int(row[name]) for name in names))

    def check_pack_header(self, pack: int, path: str | os.PathLike[str] | None = None) -> None:
        """Checks that the file at `path` (default: in the dataset) is this pack: its size, its
        header and its trailer, not its content. Raises DatasetDamaged or OSError."""
        where = self.pack_path(pack) if path is None else Path(path)
        info = self.pack_info(pack)
        header = read_pack_header(where)
        trailer = read_pack_trailer(where)
        dtype = dtype_of("struct fan_pack_header")
        expected = {
            "plan_id": self.plan_id,
            "pack": pack,
            "pack_count": self.pack_count,
            "block_bytes": self.block_bytes,
            "flags": info.flags,
        }
        for field, value in expected.items():
            found = header[field]
            if (bytes(found) if isinstance(value, bytes) else int(found)) != value:
                assert dtype.fields is not None
                at = dtype.fields[field][1]
                raise DatasetDamaged(where, f"header.{field}", at, "not what the index says")
        if int(trailer["file_bytes"]) != info.file_bytes:
            at = int(trailer["file_bytes"]) - 16
            raise DatasetDamaged(where, "trailer.file_bytes", at, "not what the index says")

    def records_of_pack(self, pack: int) -> NDArray[np.int64]:
        """The ids of the regular files stored in a pack, rising; hard links by every name."""
        regular = (self.records["mode"] & 0o170000) == stat.S_IFREG
        return np.flatnonzero(regular & (self.records["pack"] == pack))

    def record_offset(self, record: int) -> int:
        """Where a record lies in the index file."""
        start = int(self.header["sections"][lib.FAN_SECTION_RECORDS]["offset"])
        return start + record * int(lib.FAN_RECORD_BYTES)

    def damaged(self, record: int, field: str, reason: str) -> DatasetDamaged:
        """The exception for a bad field of one record."""
        fields = dtype_of("struct fan_record").fields
        assert fields is not None
        at = self.record_offset(record) + fields[field][1]
        return DatasetDamaged(self.index_path, f"records[{record}].{field}", at, reason)

    def run(self, record: int, field: str, offset: int, length: int) -> bytes:
        """Bytes of the names section; `field` is blamed when they leave it."""
        if offset + length > len(self.names):
            raise self.damaged(record, field, "outside the names section")
        return self.names[offset : offset + length].tobytes()

    def basename(self, record: int) -> bytes:
        """The name of a record in its directory; b"" for the root."""
        row = self.records[record]
        return self.run(record, "name_offset", int(row["name_offset"]), int(row["name_bytes"]))

    def owner(self, record: int) -> tuple[int, int]:
        """The uid and gid of a record. Raises DatasetDamaged."""
        number = int(self.records[record]["owner"])
        if number >= len(self.owners):
            raise self.damaged(record, "owner", "outside the owners section")
        return int(self.owners[number]["uid"]), int(self.owners[number]["gid"])

    def target(self, record: int) -> bytes:
        """The target of a symbolic link."""
        row = self.records[record]
        return self.run(record, "offset", int(row["offset"]), int(row["logical_size"]))

    def relpath(self, record: int) -> bytes:
        """The path of a record under the root; b"" is the root itself."""
        room = _PATH_ROOM
        while True:
            buffer = ffi.new("char[]", room)
            length = lib.fan_core_index_path(self._buffer, self._bytes, record, buffer, room)
            if length >= 0:
                return bytes(ffi.buffer(buffer, length))
            if length != -errno.ERANGE:
                raise self.damaged(record, "parent", "no way to the root")
            room *= 4

    def lookup(self, relpath: bytes) -> int:
        """The record id of a relpath in normal form (b"" is the root); follows no links.
        Raises FileNotFoundError, or DatasetDamaged."""
        found = int(
            lib.fan_core_index_lookup(self._buffer, self._bytes, relpath, len(relpath))
        )
        if found == -errno.ENOENT:
            name = os.fsdecode(relpath)
            raise FileNotFoundError(errno.ENOENT, "no such file in the dataset", name)
        if found < 0:
            raise DatasetDamaged(self.index_path, "slots", 0, "look-up failed")
        return found

    def children(self, record: int) -> range:
        """The ids of a directory's children, sorted by name. Raises DatasetDamaged."""
        span = ffi.new("uint64_t[2]")
        if lib.fan_core_index_children(self._buffer, self._bytes, record, span, span + 1) != 0:
            raise self.damaged(record, "offset", "not a range of later records")
        if (self.records["parent"][span[0] : span[0] + span[1]] != record).any():
            raise self.damaged(record, "offset", "not the range of its own children")
        return range(span[0], span[0] + span[1])

    def close(self) -> None:
        """Lets the index go. Arrays taken from it keep the mapping alive until they are gone."""
        for name in ("header", "records", "slots", "names", "owners", "links", "_packs"):
            self.__dict__.pop(name, None)
        ffi.release(self._buffer)
        with contextlib.suppress(BufferError):
            self._mapping.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_dataset(path: str | os.PathLike[str], verify: bool = False) -> Dataset:
    """Opens the dataset in the directory `path`. The header is always checked, the body's
    checksum when `verify` is set.

    Raises FanstoreError when there is no dataset, DatasetDamaged when it is not sound.
    """
    directory = Path(path)
    return open_index(directory / INDEX_NAME, directory, verify)


def _why_no_dataset(directory: Path) -> str:
    """Why there is no index in what was named as a dataset, and what to do."""
    if not os.path.lexists(directory):
        return "no such directory"
    if not directory.is_dir():
        return f"not a directory: name the one that holds {INDEX_NAME}"
    return f"not a dataset (no {INDEX_NAME}): `fanstore prepare` makes one of a directory"


def open_index(index_path: Path, directory: Path, verify: bool = False) -> Dataset:
    """Opens an index that lies elsewhere than the packs in `directory`."""
    try:
        with index_path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < _HEADER_BYTES:
                raise DatasetDamaged(index_path, "header", size, "truncated")
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (FileNotFoundError, NotADirectoryError) as error:
        if any(directory.glob("pack-*.fsp")):
            reason = "missing; `fanstore rebuild-index` makes it from the packs"
            raise DatasetDamaged(index_path, "file", 0, reason) from error
        raise FanstoreError(f"{directory}: {_why_no_dataset(directory)}") from error
    dataset = Dataset(directory, index_path, mapping)
    if verify:
        dataset.check_body()
    return dataset


def _checked(path: Path, raw: bytes, struct: str, part: str, base: int) -> np.void:
    """Decodes a struct whose last field is the checksum of the bytes before it."""
    dtype = dtype_of(struct)
    if len(raw) < dtype.itemsize:
        raise DatasetDamaged(path, part, base + len(raw), "truncated")
    row: np.void = np.frombuffer(raw, dtype, 1)[0]
    magic = _PACK_MAGIC if part == "header" else _TRAILER_MAGIC
    if bytes(row["magic"]) != magic:
        raise DatasetDamaged(path, f"{part}.magic", base, "not a FanStore pack")
    if part == "header":
        for field, value in (("version", lib.FAN_FORMAT_VERSION),
                             ("layout_id", lib.FAN_PACK_LAYOUT_ID)):
            if int(row[field]) != value:
                assert dtype.fields is not None
                at = dtype.fields[field][1]
                raise DatasetDamaged(path, f"{part}.{field}", at, f"{int(row[field])} is unknown")
    at = dtype.itemsize - 8
    if int(row["checksum"]) != xxhash.xxh3_64_intdigest(raw[:at]):
        raise DatasetDamaged(path, f"{part}.checksum", base + at, "the checksum does not match")
    return row


def read_pack_header(path: Path) -> np.void:
    """The header of a pack, checked by itself. Raises DatasetDamaged or OSError."""
    with path.open("rb") as file:
        raw = file.read(_PACK_HEADER_BYTES)
    if len(raw) < _PACK_HEADER_BYTES:
        raise DatasetDamaged(path, "header", len(raw), "truncated")
    return _checked(path, raw[:64], "struct fan_pack_header", "header", 0)


def read_pack_trailer(path: Path) -> np.void:
    """The trailer of a pack, checked by itself and against the file's size."""
    dtype = dtype_of("struct fan_pack_trailer")
    entry_bytes = dtype_of("struct fan_pack_entry").itemsize
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        base = size - dtype.itemsize
        if base < _PACK_HEADER_BYTES:
            raise DatasetDamaged(path, "trailer", size, "truncated")
        file.seek(base)
        row = _checked(path, file.read(dtype.itemsize), "struct fan_pack_trailer", "trailer", base)
    assert dtype.fields is not None
    entries, paths = int(row["entries_offset"]), int(row["paths_offset"])
    sane = {
        "file_bytes": int(row["file_bytes"]) == size,
        "entries_offset": _PACK_HEADER_BYTES <= entries <= base,
        "entry_count": int(row["entry_count"]) <= (base - entries) // entry_bytes,
        "paths_offset": entries + int(row["entry_count"]) * entry_bytes <= paths <= base,
        "paths_bytes": int(row["paths_bytes"]) == base - paths,
    }
    for field, good in sane.items():
        if not good:
            at = base + dtype.fields[field][1]
            raise DatasetDamaged(path, f"trailer.{field}", at, "not a valid value")
    return row
