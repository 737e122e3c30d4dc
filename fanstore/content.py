"""The content of a dataset's files, read from packs: decoded, bounds kept, checksums compared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

import xxhash

from fanstore._native import lib
from fanstore.dataset import Dataset


class ContentDamaged(Exception):
    """The stored bytes of a file cannot be its content."""


def _read(stream: BinaryIO, offset: int, length: int, end: int) -> bytes:
    if offset < 0 or length < 0 or offset + length > end:
        raise ContentDamaged
    stream.seek(offset)
    data = stream.read(length)
    if len(data) != length:
        raise ContentDamaged
    return data


def decode_block(codec: int, stored: bytes, logical_bytes: int) -> bytes:
    """Returns the content of one block of a compressed file. Raises ContentDamaged."""
    if codec == lib.FAN_CODEC_ZSTD:
        import zstandard

        try:
            # A frame says how much it needs, and is believed: it must say no more than it may.
            if zstandard.frame_content_size(stored) not in (-1, logical_bytes):
                raise ContentDamaged
            data = zstandard.ZstdDecompressor().decompress(stored, max_output_size=logical_bytes)
        except zstandard.ZstdError as error:
            raise ContentDamaged from error
    else:
        import lz4.block

        try:
            data = lz4.block.decompress(stored, uncompressed_size=logical_bytes)
        except (lz4.block.LZ4BlockError, ValueError, MemoryError) as error:
            raise ContentDamaged from error
    if len(data) != logical_bytes:
        raise ContentDamaged
    return bytes(data)


def _block_starts(stream: BinaryIO, offset: int, blocks: int, stored_bytes: int) -> list[int]:
    """Returns where each block starts, and the end, from the start of the stored bytes."""
    if blocks == 1:
        return [0, stored_bytes]
    table = _read(stream, offset, blocks * 8, offset + stored_bytes)
    ends = [int.from_bytes(table[i : i + 8], "little") for i in range(0, len(table), 8)]
    return [len(table), *ends]


class PackReader:
    """Reads the files of one pack from the copy at `path`. A context manager.

    Raises OSError when the copy cannot be opened.
    """

    def __init__(self, dataset: Dataset, pack: int, path: str | os.PathLike[str]) -> None:
        self._dataset = dataset
        self._file_bytes = dataset.pack_info(pack).file_bytes
        self._stream = open(path, "rb")  # noqa: SIM115

    def __enter__(self) -> PackReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def pieces(self, record: int) -> Iterator[bytes]:
        """The logical content of a file, in pieces of at most a block. Its checksum is compared
        at the end. Raises ContentDamaged."""
        digest = xxhash.xxh3_64()
        for piece in self._decoded(record):
            digest.update(piece)
            yield piece
        if digest.intdigest() != int(self._dataset.records[record]["checksum"]):
            raise ContentDamaged

    def is_sound(self, record: int) -> bool:
        """Tells whether a file's content has its checksum."""
        try:
            for _ in self.pieces(record):
                pass
        except ContentDamaged:
            return False
        return True

    def _decoded(self, record: int) -> Iterator[bytes]:
        row = self._dataset.records[record]
        offset, codec = int(row["offset"]), int(row["codec"])
        logical, stored = int(row["logical_size"]), int(row["stored_size"])
        step = self._dataset.block_bytes
        if logical == 0:
            return
        if codec == lib.FAN_CODEC_STORE:
            for at in range(0, logical, step):
                yield _read(self._stream, offset + at, min(step, logical - at), self._file_bytes)
            return
        blocks = -(-logical // step)
        if blocks > stored:
            raise ContentDamaged
        starts = _block_starts(self._stream, offset, blocks, stored)
        for number in range(blocks):
            start, end = starts[number], starts[number + 1]
            size = min(step, logical - number * step)
            if not 0 <= start <= end <= stored:
                raise ContentDamaged
            data = _read(self._stream, offset + start, end - start, self._file_bytes)
            plain = blocks > 1 and len(data) == size
            yield data if plain else decode_block(codec, data, size)
