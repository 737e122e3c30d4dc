"""Maps a large file in many ways, under the mount of rank 1 and as it was, and compares.

    mapping_reader.py SOURCE SHARED

SOURCE is the plain file. SHARED is the path of the file that must be mapped, or the beginning of
the name of a copy in memory."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)


class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


def read_map(fd: int, offset: int = 0, size: int = 0) -> mmap.mmap:
    return mmap.mmap(fd, size, prot=mmap.PROT_READ, offset=offset)


def address(mapping: mmap.mmap) -> int:
    """Where a mapping begins; it must be writable, and is private."""
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def private(fd: int) -> mmap.mmap:
    return mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)


def in_child(work: Callable[[], object]) -> int:
    """How a child that does it ends."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGBUS, signal.SIG_DFL)
        os._exit(0 if work() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def by_the_kernel(fd: int) -> list[bytes]:
    """write(2) from the mapping, and process_vm_readv."""
    mapping = private(fd)
    at, size = address(mapping), len(mapping)
    ends = os.pipe()
    assert LIBC.write(ends[1], ctypes.c_void_p(at + size - 5000), 5000) == 5000
    room = ctypes.create_string_buffer(9000)
    ours = Vector(ctypes.addressof(room), 9000)
    theirs = Vector(at + size // 2, 9000)
    got = LIBC.process_vm_readv(
        os.getpid(), ctypes.byref(ours), 1, ctypes.byref(theirs), 1, ctypes.c_ulong(0)
    )
    return [os.read(ends[0], 5000), room.raw[: max(got, 0)]]


def direct(fd: int) -> list[object]:
    """write(2) from the mapping past the page cache, which reads the pages itself."""
    mapping = private(fd)
    path = f"{sys.argv[1]}-direct"
    try:
        out = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DIRECT)
    except OSError as error:
        return [error.errno]
    put = LIBC.write(out, ctypes.c_void_p(address(mapping) + 7 * PAGE), 20 * PAGE)
    return [put, Path(path).read_bytes()]


def kept(fd: int) -> list[object]:
    """Pages that are brought, locked, and unmapped in the middle."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_POPULATE
    mapping = mmap.mmap(fd, 64 * PAGE, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    at = address(mapping)
    locked = LIBC.mlock(ctypes.c_void_p(at), ctypes.c_size_t(8 * PAGE))
    mapping.madvise(mmap.MADV_WILLNEED)
    hole = LIBC.munmap(ctypes.c_void_p(at + 8 * PAGE), ctypes.c_size_t(PAGE))
    reads = [partial(ctypes.string_at, at + place * PAGE, 1) for place in (7, 8, 9)]
    ends = [in_child(read) for read in reads]
    found = [locked, hole, ends, mapping[: 8 * PAGE], mapping[9 * PAGE :]]
    LIBC.mmap(ctypes.c_void_p(at + 8 * PAGE), PAGE, mmap.PROT_READ, 0x32, -1, 0)
    return found


def shrunk(fd: int) -> list[object]:
    mapping = private(fd)
    at, most = address(mapping), len(mapping) // PAGE * PAGE
    LIBC.mremap.restype = ctypes.c_void_p
    got = LIBC.mremap(ctypes.c_void_p(at), ctypes.c_size_t(most), ctypes.c_size_t(3 * PAGE), 0)
    return [got == at, ctypes.string_at(at, 3 * PAGE), in_child(lambda: mapping[5 * PAGE])]


def grown(fd: int, is_pack: bool) -> bool:
    """Whether a mapping of a pack refuses to grow: another file follows in the pack."""
    mapping = private(fd)
    arguments = (ctypes.c_void_p(address(mapping)), *map(ctypes.c_size_t, (PAGE, 2 * len(mapping))))
    LIBC.mremap.restype = ctypes.c_ssize_t
    return not is_pack or LIBC.mremap(*arguments, 1) == -1


def stores(fd: int) -> list[bytes]:
    """Stores to a private mapping, seen by nobody else; MADV_DONTNEED brings the file's back."""
    mapping = private(fd)
    was, mapping[7:9] = mapping[:16], b"xy"
    seen = [was, mapping[:16], read_map(fd)[:16]]
    mapping.madvise(mmap.MADV_DONTNEED)
    return [*seen, mapping[:16]]


def parts(fd: int) -> list[bytes]:
    size = os.fstat(fd).st_size
    last = size // PAGE * PAGE
    return [
        read_map(fd, 2 * PAGE, 3 * PAGE + 5)[:],
        read_map(fd, last, size - last)[:],
        read_map(fd)[size - 100 :],
    ]


def beyond(fd: int) -> list[object]:
    """The zeros behind the end in its last page, and the page after that; all by a raw mmap."""
    size = os.fstat(fd).st_size
    LIBC.mmap.restype = ctypes.c_void_p
    LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    at = LIBC.mmap(None, size + 3 * PAGE, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    end = at + (size + PAGE - 1) // PAGE * PAGE
    tail = ctypes.string_at(at + size - 50, end - at - size + 50)
    return [tail, in_child(lambda: ctypes.string_at(end, 1))]


def forked(fd: int) -> list[int]:
    mapping = read_map(fd)
    mapping.madvise(mmap.MADV_RANDOM)
    wanted = os.pread(fd, PAGE, 5 * PAGE)
    return [in_child(lambda: mapping[5 * PAGE : 6 * PAGE] == wanted)]


def whole(fd: int) -> list[bytes]:
    return [read_map(fd)[:]]


def refused(fd: int) -> list[int | None]:
    found: list[int | None] = []
    for flags, prot in ((mmap.MAP_SHARED, mmap.PROT_WRITE), (0, mmap.PROT_READ)):
        try:
            mmap.mmap(fd, PAGE, flags=flags, prot=prot)
            found.append(0)
        except OSError as error:
            found.append(error.errno)
    return found


def main() -> int:
    source, shared = sys.argv[1:]
    if os.environ["FANSTORE_RANK"] != "1":
        return 0
    ours = os.open(f"{os.environ['FANSTORE_MOUNT_PREFIX']}/{Path(source).name}", os.O_RDONLY)
    plain = os.open(source, os.O_RDONLY)
    held = read_map(ours)
    assert shared in Path("/proc/self/maps").read_text(), shared
    for way in (parts, by_the_kernel, direct, kept, shrunk, stores, beyond, forked, refused, whole):
        assert way(ours) == way(plain), way.__name__
    assert grown(ours, ".fsp" in shared or os.path.isdir(shared))
    os.close(ours)
    assert held[:] == read_map(plain)[:]
    return 0


if __name__ == "__main__":
    sys.exit(main())
