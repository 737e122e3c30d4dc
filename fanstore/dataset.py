"""Opens a dataset: maps and checks its index, and describes its packs.

A dataset is a directory with index.fsi, pack-00000.fsp ... and manifest.json. docs/format.md
specifies the files.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import tempfile
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import xxhash

from fanstore._native import check, dtype_of, ffi, lib
from fanstore.errors import DatasetDamaged, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fanstore.buckets.bucket import Bucket
    from fanstore.pieces import Pieces

INDEX_NAME = "index.fsi"
MANIFEST_NAME = "manifest.json"

_HEADER_BYTES: int = lib.FAN_INDEX_HEADER_BYTES
_PACK_HEADER_BYTES: int = lib.FAN_PACK_HEADER_BYTES
_PACK_MAGIC = b"FANPACK\n"
_TRAILER_MAGIC = b"FANPEND\n"
_PATH_ROOM = 65536
_PIECE_RECORDS = 1 << 18
NO_RECORD = 2**64 - 1  # from lookup_all, for a path that is missing
_DEVICE_MAJOR = 0xFA5


def pack_name(pack: int) -> str:
    """Returns the file name of a pack, such as pack-00000.fsp."""
    return f"pack-{pack:05d}.fsp"


def device_number(dataset_id: str) -> int:
    """Returns the st_dev of a dataset's files, which is the same in every run and on every node."""
    return os.makedev(_DEVICE_MAJOR, int(dataset_id[:5], 16))


def are_files(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns which of some records are regular files."""
    mask: NDArray[np.bool_] = (rows["mode"] & 0o170000) == stat.S_IFREG
    return mask


@dataclass(frozen=True)
class PackInfo:
    """Describes one pack, as the index does. `checksum` is the XXH3-64 of the whole file."""

    pack: int
    file_bytes: int
    checksum: int
    entry_count: int
    logical_bytes: int
    flags: int

    @property
    def everywhere(self) -> bool:
        """Whether every node is to keep this pack."""
        return bool(self.flags & lib.FAN_PACK_EVERYWHERE)


class Dataset:
    """A mapped index and the directory of its packs. Open it with open_dataset; close it when done.

    `source`: the directory or address of which this is a listing, or "". `bucket`: with the packs,
    or the objects of a listing, or None: only those who read them set it. `header` is a copy of the
    index's struct fan_index_header. `records` and `links` are NumPy arrays over the mapped index,
    for code that goes through many records; the daemon, which starts with every job, does not use
    them, and so does not load NumPy.
    """

    def __init__(self, directory: Path, index_path: Path, mapping: mmap.mmap) -> None:
        self.directory = directory
        self.name = directory.resolve().name
        self.source = ""
        self.bucket: Bucket | None = None
        self.index_path = index_path
        self._mapping = mapping
        self._buffer = ffi.from_buffer(mapping)
        self._bytes = len(mapping)
        self._check_header()
        self.header = ffi.new("struct fan_index_header *")
        ffi.memmove(self.header, self._buffer, _HEADER_BYTES)
        self._names = self.section(lib.FAN_SECTION_NAMES)
        self._records = self._structs(lib.FAN_SECTION_RECORDS, "struct fan_record")
        self._owners = self._structs(lib.FAN_SECTION_OWNERS, "struct fan_owner")
        self._packs = self._structs(lib.FAN_SECTION_PACKS, "struct fan_pack_info")

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

    def section(self, kind: int) -> memoryview:
        """Returns a section of the index as a memoryview."""
        section = self.header.sections[kind]
        end = section.offset + section.count * section.entry_bytes
        with memoryview(self._mapping) as view:
            return view[section.offset : end]

    def _structs(self, kind: int, struct: str) -> Any:
        """Returns a section as an array of C structs. cffi checks the bounds of an access."""
        return ffi.from_buffer(f"{struct}[]", self.section(kind))

    def _array(self, kind: int, struct: str) -> NDArray[Any]:
        from fanstore.arrays import np  # imported late: costs 45 ms and 20 MiB

        section = self.section(kind)
        dtype = dtype_of(struct)
        return np.frombuffer(section, dtype) if len(section) else np.empty(0, dtype)

    @cached_property
    def records(self) -> NDArray[Any]:
        """All records, as an array of struct fan_record."""
        return self._array(lib.FAN_SECTION_RECORDS, "struct fan_record")

    @cached_property
    def pieces(self) -> Pieces:
        """The numbers of the pieces of large files."""
        from fanstore.pieces import Pieces  # late, because it loads NumPy

        return Pieces(int(self.header.record_count), self.record_pieces())

    @cached_property
    def links(self) -> NDArray[Any]:
        """The names of hard-linked files beyond the first, as an array of struct fan_link."""
        return self._array(lib.FAN_SECTION_LINKS, "struct fan_link")

    def first_name(self, record: int) -> int:
        """Returns the record of a hard-linked file's first name; `record` itself if it is that or
        the file has one name."""
        at = bisect_left(self.links, record, key=lambda link: int(link["record"]))
        there = at < len(self.links) and int(self.links[at]["record"]) == record
        return int(self.links[at]["first"]) if there else record

    def record_pieces(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yields all records in pieces, each with the id of its first record, so that the memory
        for results need not grow with the dataset."""
        for first in range(0, len(self.records), _PIECE_RECORDS):
            yield first, self.records[first : first + _PIECE_RECORDS]

    def record(self, record: int) -> Any:
        """Returns a copy of one record, a struct fan_record. Raises IndexError."""
        return ffi.new("struct fan_record *", self._records[record])

    def check_body(self) -> None:
        """Compares the checksum over all sections. Raises DatasetDamaged."""
        self._check_sum("header.body_checksum", _HEADER_BYTES - 16, slice(_HEADER_BYTES, None))

    def check_records(self) -> None:
        """Checks the fields of every record. Call it before you go through all records. Raises
        DatasetDamaged for the first damaged one."""
        record = ffi.new("uint64_t *")
        field = ffi.new("const char **")
        if lib.fan_core_check_records(self._buffer, self._bytes, record, field) != 0:
            raise self.damaged(record[0], ffi.string(field[0]).decode(), "not a valid value")

    def check_lookups(self) -> None:
        """Checks that each record is found by its path. Call check_records first. Raises
        DatasetDamaged."""
        record = ffi.new("uint64_t *")
        if lib.fan_core_check_lookups(self._buffer, self._bytes, record) != 0:
            at = self.header.sections[lib.FAN_SECTION_SLOTS].offset
            reason = f"record {record[0]} is not found by its path"
            raise DatasetDamaged(self.index_path, "sections[slots]", at, reason)

    @property
    def dataset_id(self) -> str:
        """The dataset id: 32 hexadecimal digits, the same for datasets with the same content."""
        return bytes(self.header.dataset_id).hex()

    @property
    def plan_id(self) -> bytes:
        """The 16 bytes that are in the index and in each of its packs, and so tie them together."""
        return bytes(self.header.plan_id)

    @property
    def is_planned(self) -> bool:
        """Whether the packs do not exist: the content is in the original files, in `directory`."""
        return bool(self.header.flags & lib.FAN_INDEX_PLANNED)

    @property
    def pack_count(self) -> int:
        return len(self._packs)

    @property
    def block_bytes(self) -> int:
        return int(self.header.block_bytes)

    def pack_path(self, pack: int) -> Path:
        """Returns the path of a pack in the dataset's directory."""
        return self.directory / pack_name(pack)

    @contextlib.contextmanager
    def pack_at_hand(self, pack: int) -> Iterator[Path]:
        """Yields the path of a pack, or of a temporary copy if it is in a bucket."""
        if self.bucket is None:
            yield self.pack_path(pack)
            return
        name, size = pack_name(pack), self.pack_info(pack).file_bytes
        with tempfile.NamedTemporaryFile(prefix="fanstore-pack-") as copy:
            copy.writelines(self.bucket.pieces(name, size))
            copy.flush()
            yield Path(copy.name)

    def pack_shown(self, pack: int) -> str:
        """Returns the path or address of a pack, for users."""
        return f"{self.source or self.directory}/{pack_name(pack)}"

    def pack_info(self, pack: int) -> PackInfo:
        """Returns the description of a pack from the index."""
        row = self._packs[pack]
        return PackInfo(
            pack, row.file_bytes, row.checksum, row.entry_count, row.logical_bytes, row.flags
        )

    def check_pack_header(self, pack: int, path: str | os.PathLike[str] | None = None) -> None:
        """Checks that the file at `path` (default: in the dataset) is this pack, by its size,
        header and trailer; does not check the content. Raises DatasetDamaged or OSError."""
        where = self.pack_shown(pack) if path is None else os.fspath(path)
        info = self.pack_info(pack)
        if path is None and self.bucket is not None:  # it compares the size
            raw = self.bucket.read(pack_name(pack), 0, _PACK_HEADER_BYTES, info.file_bytes)
            header, file_bytes = _pack_header(where, raw), info.file_bytes
        else:
            header, file_bytes = read_pack_header(where), read_pack_trailer(where).file_bytes
        expected: dict[str, Any] = {"pack": pack, "block_bytes": self.block_bytes}
        # A pack that an update kept has the ids of the older dataset.
        if not info.flags & lib.FAN_PACK_KEPT:
            expected |= {"pack_count": self.pack_count, "flags": info.flags}
            expected |= {"plan_id": self.plan_id}
        for field, value in expected.items():
            found = getattr(header, field)
            if (bytes(found) if isinstance(value, bytes) else found) != value:
                at = ffi.offsetof("struct fan_pack_header", field)
                raise DatasetDamaged(where, f"header.{field}", at, "not what the index says")
        if file_bytes != info.file_bytes:
            at = file_bytes - 16
            raise DatasetDamaged(where, "trailer.file_bytes", at, "not what the index says")

    def records_of_pack(self, pack: int) -> Iterator[int]:
        """Yields the ids of the regular files in a pack, in ascending order. A hard-linked file has
        an id for each name."""
        from fanstore.arrays import np

        for first, rows in self.record_pieces():
            yield from (np.flatnonzero(are_files(rows) & (rows["pack"] == pack)) + first).tolist()

    def record_offset(self, record: int) -> int:
        """Returns the offset of a record in the index file, in bytes."""
        start = self.header.sections[lib.FAN_SECTION_RECORDS].offset
        return int(start + record * lib.FAN_RECORD_BYTES)

    def damaged(self, record: int, field: str, reason: str) -> DatasetDamaged:
        """Returns the exception for a bad field of one record; does not raise it."""
        at = self.record_offset(record) + ffi.offsetof("struct fan_record", field)
        return DatasetDamaged(self.index_path, f"records[{record}].{field}", at, reason)

    def run(self, record: int, field: str, offset: int, length: int) -> bytes:
        """Returns some bytes of the names section. Raises DatasetDamaged, which names `field`, if
        they reach beyond its end."""
        if offset + length > len(self._names):
            raise self.damaged(record, field, "outside the names section")
        return bytes(self._names[offset : offset + length])

    def basename(self, record: int) -> bytes:
        """Returns the last component of a record's path; b"" for the root."""
        row = self._records[record]
        return self.run(record, "name_offset", row.name_offset, row.name_bytes)

    def owner(self, record: int) -> tuple[int, int]:
        """Returns the uid and gid of a record. Raises DatasetDamaged."""
        number = self._records[record].owner
        if number >= len(self._owners):
            raise self.damaged(record, "owner", "outside the owners section")
        return self._owners[number].uid, self._owners[number].gid

    def target(self, record: int) -> bytes:
        """Returns the target of a symbolic link. Raises DatasetDamaged."""
        row = self._records[record]
        return self.run(record, "offset", row.offset, row.logical_size)

    def relpath(self, record: int) -> bytes:
        """Returns a record's path relative to the root; b"" for the root itself. Raises
        DatasetDamaged."""
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
        """Returns the record id of a relpath, which must be in normal form (b"" is the root).
        Follows no links. Raises FileNotFoundError or DatasetDamaged."""
        found = int(lib.fan_core_index_lookup(self._buffer, self._bytes, relpath, len(relpath)))
        if found == -errno.ENOENT:
            name = os.fsdecode(relpath)
            raise FileNotFoundError(errno.ENOENT, "no such file in the dataset", name)
        if found < 0:
            raise DatasetDamaged(self.index_path, "slots", 0, "look-up failed")
        return found

    def lookup_all(
        self, paths: bytes | memoryview, prefix: bytes, count: int
    ) -> NDArray[np.uint64]:
        """Returns the record ids of `count` paths below the mount prefix `prefix`, as uint64
        (count), with NO_RECORD for a missing path. paths: the paths as programs spell them, each
        with a NUL behind it; ".." and links are not followed. Raises ValueError if the number of
        paths is not `count`."""
        from fanstore.arrays import np

        ids = np.empty(count, np.uint64)
        found = lib.fan_core_index_lookup_all(
            self._buffer, self._bytes, ffi.from_buffer(paths), len(paths), prefix, len(prefix),
            ffi.cast("uint64_t *", ffi.from_buffer(ids)), count,
        )  # fmt: skip
        if found < 0:
            raise ValueError(f"{len(paths)} bytes are not {count} paths")
        return ids

    def first_changed(self, records: NDArray[np.uint64]) -> int:
        """Returns the position in `records` of the first one whose original is not as it was
        listed; their number if all are. Only for a planned dataset."""
        at = lib.fan_planned_differs(
            self._buffer, self._bytes, os.fsencode(self.directory),
            ffi.from_buffer("uint64_t[]", records), len(records),
        )  # fmt: skip
        return check(at)

    def children(self, record: int) -> range:
        """Returns the ids of a directory's children, sorted by name. Raises DatasetDamaged."""
        span = ffi.new("uint64_t[2]")
        if lib.fan_core_index_children(self._buffer, self._bytes, record, span, span + 1) != 0:
            raise self.damaged(record, "offset", "not a range of later records")
        if (self.records["parent"][span[0] : span[0] + span[1]] != record).any():
            raise self.damaged(record, "offset", "not the range of its own children")
        return range(span[0], span[0] + span[1])

    def close(self) -> None:
        """Closes the index. Its memory stays mapped while an array of it exists."""
        for name in ("records", "links", "_records", "_owners", "_packs", "_names"):
            self.__dict__.pop(name, None)
        ffi.release(self._buffer)
        with contextlib.suppress(BufferError):
            self._mapping.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_dataset(path: str | os.PathLike[str], verify: bool = False) -> Dataset:
    """Opens the dataset in the directory `path`. Checks the index's header, and with `verify` the
    checksum of everything behind it.

    Raises UsageError if there is no dataset, DatasetDamaged if it is damaged."""
    directory = Path(path)
    return open_index(directory / INDEX_NAME, directory, verify)


def is_dataset(directory: str | os.PathLike[str]) -> bool:
    """Returns whether a directory was made by `prepare`, even if its index is missing."""
    path = Path(directory)
    return (path / INDEX_NAME).exists() or (path / pack_name(0)).exists()


def _why_no_dataset(directory: Path) -> str:
    """Returns a message that says why a directory has no index, and what to do."""
    if not os.path.lexists(directory):
        return "no such directory"
    if not directory.exists():
        return "a symbolic link to something that does not exist"
    if not directory.is_dir():
        return "a file: name the directory that it is in, or make a dataset by `fanstore prepare`"
    return f"not a dataset (no {INDEX_NAME}): `fanstore prepare` makes one of a directory"


def open_regular(path: Path) -> BinaryIO:
    """Opens a file for reading. Raises OSError for any other kind: opening a FIFO would wait for a
    writer."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return open(fd, "rb")
    os.close(fd)
    raise OSError(errno.EINVAL, "is not a regular file", os.fspath(path))


def open_index(index_path: Path, directory: Path, verify: bool = False) -> Dataset:
    """Opens an index at any path; its packs lie in `directory`. Raises as open_dataset does."""
    try:
        with open_regular(index_path) as file:
            size = os.fstat(file.fileno()).st_size
            if size < _HEADER_BYTES:
                raise DatasetDamaged(index_path, "header", size, "truncated")
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (FileNotFoundError, NotADirectoryError) as error:
        if is_dataset(directory):
            reason = "missing; `fanstore dataset rebuild-index` makes it from the packs"
            raise DatasetDamaged(index_path, "file", 0, reason) from error
        raise UsageError(f"{directory}: {_why_no_dataset(directory)}") from error
    dataset = Dataset(directory, index_path, mapping)
    if verify:
        dataset.check_body()
    return dataset


def _checked(path: str | os.PathLike[str], raw: bytes, struct: str, part: str, base: int) -> Any:
    """Decodes a C struct and checks its last field, which is the checksum of the bytes before
    it."""
    size = ffi.sizeof(struct)
    if len(raw) < size:
        raise DatasetDamaged(path, part, base + len(raw), "truncated")
    row = ffi.new(f"{struct} *")
    ffi.memmove(row, raw, size)
    magic = _PACK_MAGIC if part == "header" else _TRAILER_MAGIC
    if bytes(row.magic) != magic:
        raise DatasetDamaged(path, f"{part}.magic", base, "not a FanStore pack")
    if part == "header":
        for field, value in (
            ("version", lib.FAN_FORMAT_VERSION),
            ("layout_id", lib.FAN_PACK_LAYOUT_ID),
        ):
            if (found := getattr(row, field)) != value:
                at = ffi.offsetof(struct, field)
                raise DatasetDamaged(path, f"{part}.{field}", at, f"{found} is unknown")
    at = size - 8
    if row.checksum != xxhash.xxh3_64_intdigest(raw[:at]):
        raise DatasetDamaged(path, f"{part}.checksum", base + at, "the checksum does not match")
    return row


def read_pack_header(path: str | os.PathLike[str]) -> Any:
    """Returns the struct fan_pack_header of a pack, after checking its fields and checksum. Raises
    DatasetDamaged or OSError."""
    with open(path, "rb") as file:
        return _pack_header(path, file.read(_PACK_HEADER_BYTES))


def _pack_header(path: str | os.PathLike[str], raw: bytes) -> Any:
    if len(raw) < _PACK_HEADER_BYTES:
        raise DatasetDamaged(path, "header", len(raw), "truncated")
    return _checked(path, raw[:64], "struct fan_pack_header", "header", 0)


def read_pack_trailer(path: str | os.PathLike[str]) -> Any:
    """Returns the struct fan_pack_trailer of a pack, after checking its fields, its checksum and
    the file's size. Raises DatasetDamaged or OSError."""
    struct = "struct fan_pack_trailer"
    entry_bytes = ffi.sizeof("struct fan_pack_entry")
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        base = size - ffi.sizeof(struct)
        if base < _PACK_HEADER_BYTES:
            raise DatasetDamaged(path, "trailer", size, "truncated")
        file.seek(base)
        row = _checked(path, file.read(ffi.sizeof(struct)), struct, "trailer", base)
    entries, paths = row.entries_offset, row.paths_offset
    sane = {
        "file_bytes": row.file_bytes == size,
        "entries_offset": _PACK_HEADER_BYTES <= entries <= base,
        "entry_count": row.entry_count <= (base - entries) // entry_bytes,
        "paths_offset": entries + row.entry_count * entry_bytes <= paths <= base,
        "paths_bytes": row.paths_bytes == base - paths,
    }
    for field, good in sane.items():
        if not good:
            at = base + ffi.offsetof(struct, field)
            raise DatasetDamaged(path, f"trailer.{field}", at, "not a valid value")
    return row
