"""Reads one unit of content, computes its checksums and compresses it. Several threads may do so at
once. The pieces of a file that is larger than a unit must be written in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import xxhash

from fanstore._native import lib
from fanstore.decoding import decode_block
from fanstore.prepare.codecs import Buffer, Codec, saves_enough
from fanstore.prepare.packfile import PackFile
from fanstore.prepare.plan import Unit, align_up, places_after
from fanstore.prepare.source import PackSource, Unreadable

_STORE: int = lib.FAN_CODEC_STORE
_ALIGN: int = lib.FAN_DATA_ALIGN_BYTES


@dataclass
class Encoded:
    """A unit that is ready to be written. Offsets count from the start of its payload.

    For whole files, `payload` holds all of them. For a piece of a large file, `raw` is its content,
    and `blocks` its blocks, each compressed if that makes it smaller (none if the codec stores).
    failed: for each entry that failed, the reason."""

    payload: Buffer = b""
    offsets: Sequence[int] = ()
    stored: Sequence[int] = ()
    checksums: Sequence[int] = ()
    codecs: Sequence[int] = ()
    raw: memoryview = field(default_factory=lambda: memoryview(b""))
    blocks: list[Buffer] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Encoder:
    """Converts units of content to the bytes that a pack stores."""

    source: PackSource
    codec: Codec
    block_bytes: int

    def read(self, unit: Unit, buffer: memoryview) -> dict[int, str]:
        """Reads a unit into `buffer`. Returns the entries that failed, each with the reason."""
        if not unit.piece_bytes:
            return self.source.read_files(unit.ids, unit.places, buffer)
        try:
            self.source.read_piece(unit.ids[0], unit.start, buffer)
        except Unreadable as error:
            return {unit.ids[0]: str(error)}
        return {}

    def encode(
        self, unit: Unit, sizes: Sequence[int], buffer: memoryview, failed: dict[int, str] | None
    ) -> Encoded:
        """Encodes a unit; if `failed` is None, reads it first. `buffer` must have exactly the
        unit's size, and the result refers to it."""
        if failed is None:
            failed = self.read(unit, buffer)
        if unit.piece_bytes:
            blocks = [] if self.codec.stores else self._blocks(buffer)
            return Encoded(raw=buffer, blocks=blocks, failed=failed)
        views = [buffer[p : p + n] for p, n in zip(unit.places, sizes, strict=False)]
        sums = [xxhash.xxh3_64_intdigest(view) for view in views]
        if self.codec.stores:
            codecs = [_STORE] * len(sizes)
            return Encoded(buffer, unit.places[:-1], sizes, sums, codecs, failed=failed)
        return self._compressed(unit, views, sums, failed)

    def _blocks(self, content: memoryview) -> list[Buffer]:
        step = self.block_bytes
        cut = [content[at : at + step] for at in range(0, len(content), step)]
        return [self.codec.compress(block) or block for block in cut]

    def _stored_form(self, content: memoryview) -> tuple[int, list[Buffer]]:
        """Returns the codec of a whole file, and the bytes to store."""
        if len(content) <= self.block_bytes:
            packed = self.codec.compress(content)
            if packed is not None and saves_enough(len(packed), len(content)):
                return self.codec.number, [packed]
            return _STORE, [content]
        blocks = self._blocks(content)
        parts: list[Buffer] = [block_table([len(block) for block in blocks]), *blocks]
        if saves_enough(sum(map(len, parts)), len(content)):
            return self.codec.number, parts
        return _STORE, [content]

    def _compressed(
        self, unit: Unit, views: Sequence[memoryview], sums: Sequence[int], failed: dict[int, str]
    ) -> Encoded:
        payload = bytearray()
        offsets, stored, codecs = [], [], []
        for number, content in zip(unit.ids, views, strict=True):
            codec, parts = (_STORE, []) if number in failed else self._stored_form(content)
            total = sum(map(len, parts))
            place, end = align_up(len(payload), _ALIGN), 0
            if codec == _STORE:
                place, end = places_after(len(payload), [total])
            payload += bytes(place - len(payload))
            for part in parts:
                payload += part
            payload += bytes(max(0, end - len(payload)))
            offsets.append(place)
            stored.append(total)
            codecs.append(codec)
        return Encoded(payload, offsets, stored, sums, codecs, failed=failed)


def block_table(lengths: Sequence[int]) -> bytes:
    """Returns the table that is stored before a file's blocks: where each block ends, counted from
    the table's start."""
    end = 8 * len(lengths)
    table = bytearray()
    for length in lengths:
        end += length
        table += end.to_bytes(8, "little")
    return bytes(table)


_MAP_ALIGN: int = lib.FAN_MAP_ALIGN_BYTES
_HUGE_ALIGN: int = lib.FAN_HUGE_ALIGN_BYTES
_HUGE_THRESHOLD: int = lib.FAN_HUGE_THRESHOLD_BYTES
_SPILL_NAME = "spill"


@dataclass(frozen=True)
class PlacedFile:
    """The position of a large file in its pack, and how it is stored."""

    offset: int
    stored_size: int
    checksum: int
    codec: int


class LargeFile:
    """Writes the pieces of one large file to a pack.

    Uncompressed pieces go directly to the pack. Compressed blocks first go to a nameless file,
    because the block table precedes them, and because they may not save enough."""

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
        """Adds the next piece. Writes nothing more if a piece has failed."""
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

    def finish(self) -> PlacedFile | None:
        """Completes the file in the pack. If a piece failed, removes the file from the pack and
        returns None."""
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
        return PlacedFile(self._offset, self._logical_size, self._digest.intdigest(), _STORE)

    def _keep_compressed(self, spill: IO[bytes], table: bytes, stored: int) -> PlacedFile:
        place = self._pack.append(table, _ALIGN)
        spill.seek(0)
        for length in self._lengths:
            self._pack.append(spill.read(length), 1)
        return PlacedFile(place, stored, self._digest.intdigest(), self._codec.number)

    def _restore(self, spill: IO[bytes]) -> None:
        """Writes the content uncompressed. Decodes it from the nameless file `spill`, because the
        source is read only once."""
        spill.seek(0)
        left = self._logical_size
        for length in self._lengths:
            size = min(self._block_bytes, left)
            left -= size
            data = spill.read(length)
            self._append(data if length == size else decode_block(self._codec.number, data, size))

    def close(self) -> None:
        """Closes the nameless file, which frees its space."""
        if self._spill is not None:
            self._spill.close()
