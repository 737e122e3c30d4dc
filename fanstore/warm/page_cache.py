"""Reads data that this node has on disk, or packs in place, so that its pages are in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from fanstore._native import lib
from fanstore.dataset import pack_name
from fanstore.staging.resident import SPARSE
from fanstore.warm.mounts import Mount
from fanstore.warm.tally import Count

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PIECE_BYTES = 4 << 20
_BATCH = 32  # pieces that the kernel is asked to read before the first is read


def read_into_memory(mount: Mount, records: NDArray[Any], count: Count) -> None:
    """Reads records of packs that this node has or that are in place, in order. Counts the bytes
    that cannot be read."""
    rows = mount.dataset.records[records]
    for pack, of_pack in groupby(rows, key=lambda row: int(row["pack"])):
        with _opened(mount, pack) as fd:
            pieces = _pieces(of_pack)
            while batch := list(islice(pieces, _BATCH)):
                _read(fd, batch, count)


def _pieces(rows: Iterable[Any]) -> Iterator[tuple[int, int]]:
    """Divides rows (of struct fan_record) into pieces of at most _PIECE_BYTES; yields (offset,
    bytes)."""
    for row in rows:
        offset, end = int(row["offset"]), int(row["offset"]) + int(row["stored_size"])
        for start in range(offset, end, _PIECE_BYTES):
            yield start, min(_PIECE_BYTES, end - start)


@contextmanager
def _opened(mount: Mount, pack: int) -> Iterator[int | None]:
    """Opens this node's copy of a pack and yields the descriptor; None if it cannot be opened."""
    place, name = mount.places[pack], pack_name(pack)
    if place == lib.FAN_PLACE_IN_PLACE:
        path = os.fspath(mount.dataset.pack_path(pack))
    elif place == lib.FAN_PLACE_PARTIAL:
        path = os.path.join(mount.staged, name + SPARSE)
    else:
        path = os.path.join(mount.staged, name)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        # No readahead: it would fetch pages beyond a piece, which would then count as in memory
        # before.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        yield fd
    finally:
        os.close(fd)


def _read(fd: int | None, pieces: list[tuple[int, int]], count: Count) -> None:
    """Reads pieces. For each, counts the bytes that were in memory before any of the pieces was
    read."""
    if fd is None:
        count.add("failed", sum(size for _, size in pieces))
        return
    buffer = memoryview(bytearray(_PIECE_BYTES))
    there = [_in_memory(fd, buffer[:size], offset) for offset, size in pieces]
    for (offset, size), known in zip(pieces, there, strict=True):
        if known < size:
            os.posix_fadvise(fd, offset + known, size - known, os.POSIX_FADV_WILLNEED)
    for (offset, size), known in zip(pieces, there, strict=True):
        read = _read_rest(fd, buffer[: size - known], offset + known)
        count.add("there", known)
        count.add("to_memory", read)
        count.add("failed", size - known - read)


def _in_memory(fd: int, piece: memoryview, offset: int) -> int:
    """Reads those bytes of a piece that are already in memory; returns how many."""
    try:
        return os.preadv(fd, [piece], offset, os.RWF_NOWAIT)
    except OSError:  # no byte is in memory, or this file system cannot tell
        return 0


def _read_rest(fd: int, piece: memoryview, offset: int) -> int:
    done = 0
    try:
        while done < len(piece) and (got := os.preadv(fd, [piece[done:]], offset + done)) > 0:
            done += got
    except OSError:
        pass
    return done
