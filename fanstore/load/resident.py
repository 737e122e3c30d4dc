"""Which records of a dataset's partial packs are on the local disk (csrc/format/resident_format.h).

The file lies beside the packs, and every job of the user that serves the dataset on this node maps
it. It is good for as long as the kernel runs that the bits were set under: what the packs hold may
not have reached the disk. The file `resident.synced` is a copy of it that was made before the packs
were synced, with its XXH3-64 behind it: after a reboot that is what is resident.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash

from fanstore._native import ffi, lib
from fanstore.errors import FanstoreError
from fanstore.load import locks

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAME = "resident"
_SYNCED = "resident.synced"
_FAILED = "resident.failed"  # the disk did not take what the packs hold
_DIGEST_BYTES = 8
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


def sync_resident(directory: str) -> None:
    """Has the partial packs in a staged directory, which the caller holds, written to the disk, and
    notes what they held before. Raises OSError where the disk does not take them: what the packs
    hold counts for nothing from the next job on that has them for itself."""
    path = os.path.join(directory, _SYNCED)
    failed = Path(directory, _FAILED)
    try:
        content = _snapshot(os.path.join(directory, NAME))
    except FileNotFoundError:
        return
    if failed.exists():  # Linux tells of a write that failed once, and forgets it
        return
    try:
        for pack in _sparse_packs(directory):
            with open(pack.path, "rb") as stream:
                os.fsync(stream.fileno())
    except OSError:
        failed.touch()
        _remove(path)
        raise
    temporary = f"{path}.{os.getpid()}.part"  # other jobs of the dataset may end now, too
    with open(temporary, "wb") as stream:
        stream.write(content + xxhash.xxh3_64_digest(content))
        stream.flush()
        os.fsync(stream.fileno())
    os.rename(temporary, path)


def _snapshot(path: str) -> bytes:
    """Returns the content of a `resident` that jobs may change: the bits are read first, for a pack
    has its inode before a record of it has its bit, and its bytes before that."""
    header = ffi.new("struct fan_resident_header *")
    with open(path, "rb") as stream:
        stream.readinto(ffi.buffer(header))
        start = int(ffi.sizeof(header[0])) + 8 * int(header.pack_count)
        bits = os.pread(stream.fileno(), os.fstat(stream.fileno()).st_size - start, start)
        return os.pread(stream.fileno(), start, 0) + bits


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
    """Removes partial packs from a staged directory that nobody uses, unless it is known what they
    hold: all that is resident as long as this run of the kernel lasts, else what was synced."""
    if os.path.exists(os.path.join(directory, _FAILED)):
        forget_resident(directory)
        return
    inodes = _inodes(directory)
    found = _parsed(_content(os.path.join(directory, NAME)))
    if found is not None and found == (boot_id(), inodes) and found[0] != "":
        return
    content = _synced_content(directory)
    synced = _parsed(content)
    if synced is not None and synced[1] <= inodes:
        _restore(directory, content, synced[1])
    else:
        forget_resident(directory)


def _content(path: str) -> bytes:
    """Returns what a file holds, nothing where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _synced_content(directory: str) -> bytes:
    """Returns the copy of `resident` that was made when the packs were synced, nothing where there
    is none that is whole."""
    found = _content(os.path.join(directory, _SYNCED))
    content, digest = found[:-_DIGEST_BYTES], found[-_DIGEST_BYTES:]
    return content if xxhash.xxh3_64_digest(content) == digest else b""


def _parsed(content: bytes) -> tuple[str, set[int]] | None:
    """Returns the boot and the inodes of packs that the content of a `resident` names; None where
    it makes no sense."""
    header = ffi.new("struct fan_resident_header *")
    fixed = int(ffi.sizeof(header[0]))
    ffi.memmove(header, content[:fixed].ljust(fixed, b"\0"), fixed)
    if bytes(header.magic) != _MAGIC or header.version != lib.FAN_RESIDENT_VERSION:
        return None
    packs = int(header.pack_count)
    if len(content) != _size_bytes(int(header.record_count), packs):
        return None
    boot = bytes(header.boot_id).rstrip(b"\0").decode(errors="replace")
    return boot, set(memoryview(content)[fixed : fixed + 8 * packs].cast("Q")) - {0}


def _restore(directory: str, content: bytes, inodes: set[int]) -> None:
    """Has what was synced, and nothing else, be resident in this run of the kernel."""
    path = os.path.join(directory, NAME)
    _remove(path)
    for pack in _sparse_packs(directory):
        if pack.inode() not in inodes:
            os.unlink(pack.path)
    old = ffi.from_buffer("struct fan_resident_header *", content)
    header = _header(int(old.record_count), int(old.pack_count))
    Path(path + ".part").write_bytes(header + content[len(header) :])
    os.rename(path + ".part", path)


def _sparse_packs(directory: str) -> list[os.DirEntry[str]]:
    return [entry for entry in os.scandir(directory) if entry.name.endswith(SPARSE)]


def _inodes(directory: str) -> set[int]:
    return {entry.inode() for entry in _sparse_packs(directory)}


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def forget_resident(directory: str) -> None:
    """Removes the partial packs from a staged directory that nobody uses; first what speaks of
    them."""
    _remove(os.path.join(directory, _SYNCED))
    _remove(os.path.join(directory, NAME))
    for pack in _sparse_packs(directory):
        os.unlink(pack.path)
    _remove(os.path.join(directory, _FAILED))


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
    for entry in _sparse_packs(directory):
        with contextlib.suppress(FileNotFoundError):
            total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
    return total
