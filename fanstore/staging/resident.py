"""The file `resident`, which records which files of a dataset's partial packs are on the local disk
(csrc/format/resident_format.h).

It lies beside the packs, and every job of the user that serves the dataset on this node maps it.
The first job that takes over the directory trusts no bit: content may be damaged, or may not have
reached the disk before the machine crashed. So it turns bits into claims; a claim becomes a bit
again once the record's checksum was found right."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore._native import ffi, lib
from fanstore.errors import FanstoreError
from fanstore.staging import locks

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAME = "resident"
SPARSE = ".sparse"  # the suffix of partial packs
_MAGIC = b"FANRESI\n"
_BLOCK_BYTES = 512  # the unit of st_blocks, stat(2)


def _header(record_count: int, pack_count: int) -> bytes:
    header = ffi.new("struct fan_resident_header *")
    header.magic = _MAGIC
    header.version = lib.FAN_RESIDENT_VERSION
    header.layout_id = lib.FAN_RESIDENT_LAYOUT_ID
    header.record_count, header.pack_count = record_count, pack_count
    return bytes(ffi.buffer(header))


def _words(record_count: int) -> int:
    """Returns the number of 64-bit words that hold a bit for each record."""
    return record_count // 64 + 1


def _size_bytes(record_count: int, pack_count: int) -> int:
    fixed = int(ffi.sizeof("struct fan_resident_header"))
    return fixed + (pack_count + 2 * _words(record_count)) * 8


def make_resident(
    directory: str, record_count: int, pack_count: int, check: Callable[[], None]
) -> None:
    """Creates the file for a dataset in its staged directory, which the caller holds, or checks the
    existing one. In a new file no record is resident. Raises OSError; FanstoreError if the file is
    damaged or belongs to another dataset."""
    path = os.path.join(directory, NAME)
    header = _header(record_count, pack_count)
    fd = locks.wait(path + ".lock", exclusive=True, check=check)
    try:
        if os.path.exists(path):
            _check(path, header, _size_bytes(record_count, pack_count))
        else:
            _write(path, header, _size_bytes(record_count, pack_count))
    finally:
        os.close(fd)


def _check(path: str, header: bytes, size_bytes: int) -> None:
    with open(path, "rb") as stream:
        same = stream.read(len(header)) == header
    if not same or os.path.getsize(path) != size_bytes:
        raise FanstoreError(
            f"{path}: is not of this dataset, or damaged; end the other jobs that use it, and run "
            "`fanstore clean`"
        )


def _write(path: str, header: bytes, size_bytes: int) -> None:
    temporary = path + ".part"
    with open(temporary, "wb") as stream:
        try:  # otherwise a full disk later kills a process (SIGBUS)
            os.posix_fallocate(stream.fileno(), 0, size_bytes)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
        stream.write(header)
    os.rename(temporary, path)


def take_over(directory: str) -> None:
    """Turns all bits into claims, so that records are checked before they are read. No job may use
    the staged directory."""
    path = Path(directory, NAME)
    try:
        content = bytearray(path.read_bytes())
    except OSError:
        content = bytearray()
    parts = _parts(content)
    if parts is None:
        forget_resident(directory)
        return
    inodes, bits, claims = parts
    for pack in _sparse_packs(directory):
        if pack.inode() not in inodes:
            os.unlink(pack.path)
    if not any(bits):
        return
    for at, word in enumerate(bits):
        claims[at] |= word
    # Writes in place, since the disk may be full; claims first, so that a kill between the writes
    # loses no bit.
    with path.open("r+b", buffering=0) as stream:
        os.pwrite(stream.fileno(), claims, len(content) - claims.nbytes)
        os.pwrite(stream.fileno(), bytes(bits.nbytes), len(content) - 2 * claims.nbytes)


def _parts(content: bytearray) -> tuple[memoryview, memoryview, memoryview] | None:
    """Returns the inodes, bits and claims in the content of a file `resident`, as 64-bit words, or
    None if the content is not valid."""
    header = ffi.new("struct fan_resident_header *")
    fixed = int(ffi.sizeof(header[0]))
    ffi.memmove(header, content[:fixed].ljust(fixed, b"\0"), fixed)
    records, packs = int(header.record_count), int(header.pack_count)
    known = bytes(header.magic) == _MAGIC and header.version == lib.FAN_RESIDENT_VERSION
    if not known or len(content) != _size_bytes(records, packs):
        return None
    words = memoryview(content)[fixed:].cast("Q")
    first = packs + _words(records)
    return words[:packs], words[packs:first], words[first:]


def _sparse_packs(directory: str) -> list[os.DirEntry[str]]:
    return [entry for entry in os.scandir(directory) if entry.name.endswith(SPARSE)]


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def forget_resident(directory: str) -> None:
    """Removes the file `resident`, then the partial packs, from a staged directory. No job may use
    the directory."""
    _remove(os.path.join(directory, NAME))
    for pack in _sparse_packs(directory):
        os.unlink(pack.path)


def resident_of(directory: str, records: NDArray[Any]) -> NDArray[Any]:
    """Returns for each record id whether the record is resident in a staged directory, or claimed
    to be: bool, shape (records,)."""
    from fanstore.arrays import np

    try:
        parts = _parts(bytearray(Path(directory, NAME).read_bytes()))
    except FileNotFoundError:
        parts = None
    if parts is None:
        return np.zeros(len(records), dtype=bool)
    words = np.frombuffer(parts[1], dtype=np.uint64) | np.frombuffer(parts[2], dtype=np.uint64)
    ids = records.astype(np.uint64)
    found: NDArray[Any] = (words[ids // 64] >> ids % 64 & 1).astype(bool)
    return found


def resident_bytes(directory: str) -> int:
    """Returns how many bytes on disk the partial packs in a staged directory take."""
    total = 0
    for entry in _sparse_packs(directory):
        with contextlib.suppress(FileNotFoundError):
            total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
    return total
