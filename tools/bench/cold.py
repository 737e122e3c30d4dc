"""Cold rows: drops the files' pages from memory, then a new process reads them."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from peers import Peer
from readers import start_reader
from results import OURS, Goal, Result
from rows import SIZES, TITLES, C, Kind
from warm import Settings, say

# The longest time of one measurement of a size and peer.
WINDOW_NS = 300_000_000
# A measurement counts as cold if at most this part of the pages is still in memory after dropping.
CACHED_MOST = 0.02
PAGE_BYTES = 4096
LIBC = ctypes.CDLL(None, use_errno=True)


def files_below(path: Path) -> Iterator[Path]:
    """Yields `path` if it is a file or device, else the regular files below it."""
    if not path.is_dir():
        yield path
        return
    for folder, _, names in os.walk(path):
        yield from (file for name in names if (file := Path(folder, name)).is_file())


def drop(places: Sequence[Path]) -> float:
    """Drops the pages of all files in `places`. Returns the part of them that is still in
    memory."""
    cached = pages = 0
    for path in (file for place in places for file in files_below(place)):
        try:
            fd = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        try:
            with contextlib.suppress(OSError):  # the file system may be read-only
                os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            found, looked = _cached_pages(fd)
        finally:
            os.close(fd)
        cached, pages = cached + found, pages + looked
    return cached / max(1, pages)


def _cached_pages(fd: int) -> tuple[int, int]:
    """Returns how many pages of a file are in memory, and how many it has."""
    size = os.lseek(fd, 0, os.SEEK_END)
    pages = -(-size // PAGE_BYTES)
    if pages == 0:
        return 0, 0
    marks = (ctypes.c_ubyte * pages)()
    with mmap.mmap(fd, size, access=mmap.ACCESS_COPY) as mapping:
        start = ctypes.c_char.from_buffer(mapping)
        failed = LIBC.mincore(ctypes.byref(start), ctypes.c_size_t(size), marks)
        del start
    return (0, 0) if failed else (bytes(marks).count(1), pages)


class StillCached(Exception):
    """The pages of a peer's files could not be dropped."""


def read_once(peer: Peer, program: Path, kind: str, seed: int) -> float:
    """Returns nanoseconds per file. Raises StillCached."""
    reader = start_reader(peer, program, C, seed)
    try:
        reader.ask("stat", kind)  # makes the kernel look up the files' names and inodes
        cached = drop(
            [place / kind if (place / kind).is_dir() else place for place in peer.dropped]
        )
        if cached > CACHED_MOST:
            raise StillCached(f"{cached:.0%} of its pages stayed in memory")
        return reader.ns_per_unit("read", kind, WINDOW_NS)
    finally:
        reader.close()


def measure(
    program: Path, peers: Sequence[Peer], kind: Kind, settings: Settings
) -> Iterator[Result | str]:
    """Yields one row, and the reasons why peers are missing in it."""
    times: dict[str, list[float]] = {}
    able = [peer for peer in peers if peer.dropped]
    for repetition in range(settings.repetitions):
        for peer in list(able):
            say(f"cold read of {TITLES[kind.name]}, {peer.name}")
            try:
                taken = read_once(peer, program, kind.name, repetition + 1)
            except StillCached as error:
                yield f"cold-{kind.name}, {peer.name}: {error}"
                able.remove(peer)
                times.pop(peer.name, None)
                continue
            times.setdefault(peer.name, []).append(taken)
    goals = [Goal(name, 1.0) for name in times if name != OURS]
    yield Result.of(
        "cold", f"cold-{kind.name}", f"cold read {TITLES[kind.name]}", "file", times, goals,
        bytes_per_unit=kind.file_bytes,
    )  # fmt: skip


def cold_kinds(kinds: Sequence[Kind]) -> list[Kind]:
    """Returns the kinds that are read cold."""
    return [kind for kind in kinds if kind.name in SIZES]
