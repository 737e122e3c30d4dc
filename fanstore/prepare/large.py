"""A file larger than one unit: its pieces come one after another, in order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import IO

import xxhash

from fanstore._native import lib
from fanstore.decoding import decode_block
from fanstore.prepare.codecs import Codec, saves_enough
from fanstore.prepare.encode import Encoded, block_table
from fanstore.prepare.packfile import PackFile

_ALIGN: int = lib.FAN_DATA_ALIGN_BYTES
_MAP_ALIGN: int = lib.FAN_MAP_ALIGN_BYTES
_HUGE_ALIGN: int = lib.FAN_HUGE_ALIGN_BYTES
_HUGE_THRESHOLD: int = lib.FAN_HUGE_THRESHOLD_BYTES
_SPILL_NAME = "spill"
_STORE: int = lib.FAN_CODEC_STORE


@dataclass(frozen=True)
class Placed:
    """Where a large file ended up in its pack, and how."""

    offset: int
    stored_size: int
    checksum: int
    codec: int


class LargeFile:
    """Collects the pieces of one file into a pack.

    Uncompressed pieces go straight to the pack. Compressed blocks go to a nameless file first,
    since the block table precedes them and since they may turn out not to be worth keeping.
    """

    def __init__(
        self, pack: PackFile, codec: Codec, logical_size: int, block_bytes: int, directory: Path
    ) -> None:
        self._pack = pack
        self._codec = codec
        self._logical_size = logical_size
        self._block_bytes = block_bytes
        self._digest = xxhash.xxh3_64()
        self._mark = pack.mark()
        self._offset = -1
        self._lengths: list[int] = []
        self._failed = False
        self._spill: IO[bytes] | None = None
        if not codec.stores:
            self._spill = (directory / _SPILL_NAME).open("x+b")
            (directory / _SPILL_NAME).unlink()

    def add(self, piece: Encoded) -> None:
        """Takes the next piece. After a failed one nothing more is written."""
        self._failed = self._failed or bool(piece.failed)
        if self._failed:
            return
        self._digest.update(piece.raw)
        if self._spill is None:
            self._append(piece.raw)
            return
        for block in piece.blocks:
            self._lengths.append(len(block))
            self._spill.write(block)

    def _append(self, data: memoryview | bytes) -> None:
        if self._offset >= 0:
            self._pack.append(data, 1)
            return
        huge = self._logical_size >= _HUGE_THRESHOLD
        self._offset = self._pack.append(data, _HUGE_ALIGN if huge else _MAP_ALIGN)

    def finish(self) -> Placed | None:
        """Completes the file in the pack; None, and no trace in the pack, when a piece failed."""
        if self._failed:
            self._pack.rewind(self._mark)
            return None
        if self._spill is not None:
            table = block_table(self._lengths)
            stored = len(table) + sum(self._lengths)
            if saves_enough(stored, self._logical_size):
                return self._keep_compressed(self._spill, table, stored)
            self._restore(self._spill)
        self._pack.append(b"", _MAP_ALIGN)
        return Placed(self._offset, self._logical_size, self._digest.intdigest(), _STORE)

    def _keep_compressed(self, spill: IO[bytes], table: bytes, stored: int) -> Placed:
        place = self._pack.append(table, _ALIGN)
        spill.seek(0)
        for length in self._lengths:
            self._pack.append(spill.read(length), 1)
        return Placed(place, stored, self._digest.intdigest(), self._codec.number)

    def _restore(self, spill: IO[bytes]) -> None:
        """Writes the content uncompressed, from the blocks, so that it is read only once."""
        spill.seek(0)
        left = self._logical_size
        for length in self._lengths:
            size = min(self._block_bytes, left)
            left -= size
            data = spill.read(length)
            self._append(data if length == size else decode_block(self._codec.number, data, size))

    def close(self) -> None:
        """Frees the nameless file."""
        if self._spill is not None:
            self._spill.close()
