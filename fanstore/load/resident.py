"""Which records of a dataset's partial packs are on the local disk (csrc/format/resident_format.h).

The file lies beside the packs, and every job of the user that serves the dataset on this node maps
it. It is good for as long as the kernel runs that the bits were set under.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fanstore._native import ffi, lib
from fanstore.errors import FanstoreError
from fanstore.load import locks

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAME = "resident"
SPARSE = ".sparse"  # what the name of a partial pack ends with
_MAGIC = b"FANRESI\n"
_BLOCK_BYTES = 512  # of st_blocks, stat(2)


def boot_id() -> str:
    """Returns what tells this run of the kernel from others; "" where the kernel does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def _header(record_count: int, pack_count: int) -> bytes:
    header = ffi.new("struct fan_resident_header *")
    header.magic = _MAGIC
    header.version = lib.FAN_RESIDENT_VERSION
    header.layout_id = lib.FAN_RESIDENT_LAYOUT_ID
    header.record_count, header.pack_count = record_count, pack_count
    ffi.memmove(header.boot_id, boot_id().encode().ljust(40, b"\0"), 40)
    return bytes(ffi.buffer(header))


def _size_bytes(record_count: int, pack_count: int) -> int:
    fixed = int(ffi.sizeof("struct fan_resident_header"))
    return fixed + (pack_count + record_count // 64 + 1) * 8


def make_resident(
    directory: str, record_count: int, pack_count: int, check: Callable[[], None]
) -> None:
    """Makes sure that there is a file for a dataset of so many records and packs in its staged
    directory, which the caller holds; at first nothing is resident. Raises OSError, FanstoreError
    where a file of something else is in use."""
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
        try:  # a full disk must not be SIGBUS later
            os.posix_fallocate(stream.fileno(), 0, size_bytes)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error
        stream.write(header)
    os.rename(temporary, path)


def tidy_resident(directory: str) -> None:
    """Removes partial packs from a staged directory that nobody uses, unless they are of this run
    of the kernel, and those that its records are of."""
    path = os.path.join(directory, NAME)
    with contextlib.suppress(OSError), open(path, "rb") as stream:
        header = ffi.new("struct fan_resident_header *")
        read = stream.readinto(ffi.buffer(header))
        made = bytes(header.boot_id).rstrip(b"\0").decode(errors="replace")
        known = read == ffi.sizeof(header[0]) and bytes(header.magic) == _MAGIC
        known = known and header.version == lib.FAN_RESIDENT_VERSION and made == boot_id() != ""
        size_bytes = _size_bytes(int(header.record_count), int(header.pack_count))
        if known and os.fstat(stream.fileno()).st_size == size_bytes:
            inodes = stream.read(8 * int(header.pack_count))
            if _inodes(directory) == {i for i in memoryview(inodes).cast("Q") if i}:
                return
    forget_resident(directory)


def _inodes(directory: str) -> set[int]:
    return {entry.inode() for entry in os.scandir(directory) if entry.name.endswith(SPARSE)}


def forget_resident(directory: str) -> None:
    """Removes the partial packs from a staged directory that nobody uses; first what speaks of
    them."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, NAME))
    for name in os.listdir(directory):
        if name.endswith(SPARSE):
            os.unlink(os.path.join(directory, name))


def resident_of(directory: str, records: NDArray[Any]) -> NDArray[Any]:
    """Returns for records, an array of ids, whether each is resident in a staged directory."""
    from fanstore.arrays import np

    try:
        with open(os.path.join(directory, NAME), "rb") as stream:
            header = ffi.new("struct fan_resident_header *")
            stream.readinto(ffi.buffer(header))
            stream.seek(8 * int(header.pack_count), os.SEEK_CUR)
            words = np.frombuffer(stream.read(), dtype=np.uint64)
    except FileNotFoundError:
        return np.zeros(len(records), dtype=bool)
    ids = records.astype(np.uint64)
    found: NDArray[Any] = (words[ids // 64] >> ids % 64 & 1).astype(bool)
    return found


def resident_bytes(directory: str) -> int:
    """Returns how much of the disk the partial packs in a staged directory take."""
    total = 0
    for entry in os.scandir(directory):
        if entry.name.endswith(SPARSE):
            with contextlib.suppress(FileNotFoundError):
                total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
    return total
