"""Files for measuring a file system: new files without a name, or a dataset's packs."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fanstore._native import ffi
from fanstore.dataset import open_dataset
from fanstore.errors import FanstoreError
from fanstore.study.calibrate.together import Bench

PAGE_BYTES = mmap.PAGESIZE
PIECE_BYTES = 1 << 20
_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)
_RANDOM_BYTES = 16 * PIECE_BYTES


@dataclass(frozen=True)
class Extent:
    """A range of bytes of an open file. It begins at a page."""

    fd: int
    offset: int
    size: int


def portions(counts: Sequence[int], budget_bytes: int) -> tuple[int, list[int]]:
    """Divides a budget so that, for each number of readers in `counts`, they read the same amount
    in all, each its own part. Returns that amount, and the most that each reader needs for it."""
    smallest = [min(c for c in counts if c > reader) for reader in range(max(counts))]
    unit = int(budget_bytes / sum(1 / count for count in smallest)) // PAGE_BYTES * PAGE_BYTES
    return unit, [-(-unit // count // PAGE_BYTES) * PAGE_BYTES for count in smallest]


@contextlib.contextmanager
def own_files(directory: Path, sizes: Sequence[int], bench: Bench) -> Iterator[list[list[Extent]]]:
    """Yields a new file of each size. The files have no name (or lose it at once), so that nothing
    is left however this process ends. Raises FanstoreError if one cannot be written."""
    with contextlib.ExitStack() as stack:
        extents = []
        with naming(directory):
            for size in sizes:
                fd = stack.enter_context(
                    tempfile.TemporaryFile(dir=directory, buffering=0)
                ).fileno()
                extents.append([Extent(fd, 0, size)])
            bench.together([partial(write, part[0], bench) for part in extents])
        yield extents


@contextlib.contextmanager
def naming(directory: Path) -> Iterator[None]:
    """Turns an OSError into a FanstoreError that names the directory, or the file in it, and says
    what to do."""
    try:
        yield
    except OSError as error:
        where, hint = directory, ""
        if error.errno in _OF_WRITING:
            hint = "; its temporary files need room for --bytes, and the right to write there"
        elif isinstance(error.filename, str):
            where = Path(error.filename)
        raise FanstoreError(f"{where}: {error.strerror or error}{hint}") from error


def write(extent: Extent, bench: Bench) -> None:
    """Writes a file and waits until it is on the disk."""
    content = memoryview(os.urandom(_RANDOM_BYTES))
    at = 0
    while at < extent.size:
        bench.check()
        begin = at % _RANDOM_BYTES
        piece = content[begin : begin + min(PIECE_BYTES, extent.size - at)]
        count = os.pwrite(extent.fd, piece, extent.offset + at)
        at += count
        bench.advance(count)
    os.fsync(extent.fd)


@contextlib.contextmanager
def pack_extents(dataset: Path, sizes: Sequence[int], own: Sequence[bool]) -> Iterator[
    list[list[Extent]]
]:  # fmt: skip
    """Yields a range of a dataset's packs for each size, without overlaps; the ranges of readers on
    other ranks are empty. own: which readers are on this rank. Raises FanstoreError, OSError."""
    with contextlib.ExitStack() as stack, open_dataset(dataset) as opened:
        packs = []
        for pack in range(opened.pack_count):
            stream = stack.enter_context(opened.pack_path(pack).open("rb", buffering=0))
            packs.append((stream.fileno(), os.fstat(stream.fileno()).st_size))
        extents, at = [], 0
        for size, mine in zip(sizes, own, strict=True):
            extents.append(_stretch(packs, at, size) if mine else [])
            at += size
        yield extents


def packs_bytes(dataset: Path) -> int:
    """Returns the total size of a dataset's packs in bytes. Raises FanstoreError."""
    with open_dataset(dataset) as opened:
        return sum(opened.pack_info(pack).file_bytes for pack in range(opened.pack_count))


def _stretch(packs: Sequence[tuple[int, int]], start: int, size: int) -> list[Extent]:
    """Returns the extents of `size` bytes of all packs in turn, from `start` on."""
    found, begin = [], 0
    for fd, file_bytes in packs:
        first, end = max(start, begin), min(start + size, begin + file_bytes)
        if first < end:
            offset = (first - begin) // PAGE_BYTES * PAGE_BYTES
            found.append(Extent(fd, offset, end - begin - offset))
        begin += file_bytes
    return found


def head(extents: Sequence[Extent], size: int) -> list[Extent]:
    """Returns the extents of the first `size` bytes of some extents."""
    found = []
    for extent in extents:
        if size > 0:
            found.append(Extent(extent.fd, extent.offset, min(size, extent.size)))
            size -= extent.size
    return found


def read(extents: Sequence[Extent], bench: Bench) -> None:
    """Reads extents from front to back. Raises FanstoreError if a file is shorter."""
    buffer = memoryview(bytearray(PIECE_BYTES))
    for extent in extents:
        at = 0
        while at < extent.size:
            bench.check()
            piece = buffer[: min(PIECE_BYTES, extent.size - at)]
            count = os.preadv(extent.fd, [piece], extent.offset + at)
            if count == 0:
                raise FanstoreError("a file that is read became shorter; measure again")
            at += count
            bench.advance(count)


def drop(extents: Sequence[Extent]) -> None:
    """Asks the kernel to drop the extents' pages from the page cache."""
    for extent in extents:
        os.posix_fadvise(extent.fd, extent.offset, extent.size, os.POSIX_FADV_DONTNEED)


def cached_share(extents: Sequence[Extent]) -> float | None:
    """Returns which part of the extents is in the page cache (mincore(2)); None if this process may
    not know, because only the files' owner and root may."""
    libc = ctypes.CDLL(None, use_errno=True)
    resident = pages = 0
    for extent in extents:
        if os.geteuid() not in (0, os.fstat(extent.fd).st_uid):
            return None
        mapping = mmap.mmap(
            extent.fd, extent.size, mmap.MAP_SHARED, mmap.PROT_READ, offset=extent.offset
        )
        with mapping, ffi.from_buffer(mapping) as buffer:
            states = (ctypes.c_ubyte * -(-extent.size // PAGE_BYTES))()
            address = ctypes.c_void_p(int(ffi.cast("uintptr_t", buffer)))
            if libc.mincore(address, ctypes.c_size_t(extent.size), states) != 0:
                return None
        resident += sum(state & 1 for state in states)
        pages += len(states)
    return resident / pages if pages else 0.0
