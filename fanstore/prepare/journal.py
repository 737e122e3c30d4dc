"""Records the complete packs of a new dataset, so that a later run can continue the work of a
killed one.

Each complete pack has a note beside the new directory: the scan and plan that the pack belongs to,
the end of its content, the checksum up to there, and the position of each file. Before a note is
used, it is compared with the pack."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash

from fanstore import __version__
from fanstore.arrays import np
from fanstore.atomic import DONE_SUFFIX
from fanstore.dataset import pack_name
from fanstore.prepare.room import pieces

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.prepare.packfile import PackFile, Stored
    from fanstore.prepare.tree import SourceTree

_HEAD = struct.Struct("<16sQQQ")


def journal_key(tree: SourceTree, plan_id: bytes) -> bytes:
    """Returns 16 bytes that identify a scan and its plan: they change if any entry of the source
    does."""
    digest = xxhash.xxh3_128(plan_id + __version__.encode())
    for field in ("ctime_ns", "dev", "ino"):
        for part in tree.pieces():
            digest.update(tree.entries[field][part].tobytes())
    return bytes(digest.digest())


class Journal:
    """The notes in directory `scratch` that have one key. Removes all files in `made` that have no
    such note."""

    def __init__(self, scratch: Path, made: Path, key: bytes) -> None:
        self._scratch = scratch
        self._key = key
        for path in made.iterdir():
            if self._read(self._path(path.name)) is None:
                path.unlink()

    def _path(self, name: str) -> Path:
        return self._scratch / (name + DONE_SUFFIX)

    def _read(self, path: Path) -> memoryview | None:
        """Returns the bytes of a note; None if it is missing, damaged or has another key."""
        try:
            with path.open("rb") as file:
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (FileNotFoundError, ValueError):  # ValueError: mmap refuses an empty file
            return None
        body, checksum = data[:-8], data[-8:]
        sound = len(body) >= _HEAD.size and xxhash.xxh3_64_digest(body) == checksum
        return body if sound and body[: len(self._key)] == self._key else None

    def note(self, pack: PackFile, ids: NDArray[np.int64], stored: Stored) -> None:
        """Writes the note for a complete pack. ids: the entries whose content it holds."""
        path = self._path(pack_name(pack.pack))
        fresh = path.with_suffix(".new")
        digest = xxhash.xxh3_64()
        with fresh.open("wb") as file:
            for data in _note(self._key, pack, ids, stored):
                file.write(data)
                digest.update(data)
            file.write(digest.digest())
        os.rename(fresh, path)

    def take_up(self, pack: PackFile, ids: NDArray[np.int64], stored: Stored) -> bool:
        """Reuses a pack whose note says that it is complete and whose bytes match the note. Returns
        False if the pack must be written."""
        body = self._read(self._path(pack_name(pack.pack)))
        if body is None:
            return False
        _, end, checksum, count = _HEAD.unpack_from(body)
        if count != len(ids) or not pack.take_up(end, checksum):
            return False
        at = _HEAD.size
        for values in stored.arrays():
            noted = np.frombuffer(body, values.dtype, count, at)
            for part in pieces(count):
                values[ids[part]] = noted[part]
            at += noted.nbytes
        return True


def _note(key: bytes, pack: PackFile, ids: NDArray[np.int64], stored: Stored) -> Iterator[bytes]:
    yield _HEAD.pack(key, pack.end, pack.checksum(), len(ids))
    for values in stored.arrays():
        for part in pieces(len(ids)):
            yield values[ids[part]].tobytes()
