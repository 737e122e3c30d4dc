"""Reads the content of a dataset's files from packs: decodes it and checks bounds and checksums."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import xxhash

from fanstore._native import lib
from fanstore.dataset import Dataset


class ContentDamaged(Exception):
    """The stored bytes of a file are damaged."""


# A function of (offset, length) that returns bytes of a pack; fewer if the pack ends before.
ReadPack = Callable[[int, int], bytes]


def _read(read: ReadPack, offset: int, length: int, end: int) -> bytes:
    if offset < 0 or length < 0 or offset + length > end:
        raise ContentDamaged
    data = read(offset, length)
    if len(data) != length:
        raise ContentDamaged
    return data


def decode_block(codec: int, stored: bytes, logical_bytes: int) -> bytes:
    """Returns the content of one block of a compressed file. Raises ContentDamaged."""
    if codec == lib.FAN_CODEC_ZSTD:
        import zstandard

        try:
            # zstd allocates memory for the size in the frame's header, so that size is checked
            # first.
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


def _block_starts(read: ReadPack, row: Any, blocks: int, end: int) -> list[int]:
    """Returns where each block starts, and where the last one ends, from the start of the stored
    bytes."""
    if blocks == 1:
        return [0, row.stored_size]
    table = _read(read, row.offset, blocks * 8, min(end, row.offset + row.stored_size))
    ends = [int.from_bytes(table[i : i + 8], "little") for i in range(0, len(table), 8)]
    return [len(table), *ends]


def pieces_of(
    dataset: Dataset, record: int, read: ReadPack, start: int = 0, end: int | None = None
) -> Iterator[bytes]:
    """Yields the content of a regular file in pieces of at most a block, from the block at `start`
    to the one with the byte before `end`. Does not compare the file's checksum. start: a multiple
    of the dataset's block_bytes. read: reads the file's pack. Raises ContentDamaged."""
    row = dataset.record(record)
    step, pack_bytes = dataset.block_bytes, dataset.pack_info(row.pack).file_bytes
    end = row.logical_size if end is None else min(end, row.logical_size)
    if row.codec == lib.FAN_CODEC_STORE:
        for at in range(start, end, step):
            length = min(step, row.logical_size - at)
            yield _read(read, row.offset + at, length, pack_bytes)
        return
    blocks = -(-row.logical_size // step)
    if blocks > row.stored_size:
        raise ContentDamaged
    starts = _block_starts(read, row, blocks, pack_bytes) if blocks else []
    for number in range(start // step, -(-end // step)):
        yield _block(row, read, starts[number : number + 2], number, step, pack_bytes)


def _block(
    row: Any, read: ReadPack, at: list[int], number: int, step: int, pack_bytes: int
) -> bytes:
    """Returns the content of block `number`. at: where it starts and ends in the stored bytes;
    step: the bytes of a block."""
    if not 0 <= at[0] <= at[1] <= row.stored_size:
        raise ContentDamaged
    size = min(step, row.logical_size - number * step)
    data = _read(read, row.offset + at[0], at[1] - at[0], pack_bytes)
    plain = row.logical_size > step and len(data) == size
    return data if plain else decode_block(row.codec, data, size)


class PackReader:
    """Reads the files of one pack from the copy at `path`. A context manager.

    Raises OSError if the copy cannot be opened.
    """

    def __init__(self, dataset: Dataset, path: str | os.PathLike[str]) -> None:
        self._dataset = dataset
        self._stream = open(path, "rb")  # noqa: SIM115

    def __enter__(self) -> PackReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def pieces(self, record: int) -> Iterator[bytes]:
        """Yields the content of a file in pieces of at most a block, then compares its checksum.
        Raises ContentDamaged."""
        digest = xxhash.xxh3_64()
        for piece in pieces_of(self._dataset, record, self._read):
            digest.update(piece)
            yield piece
        if digest.intdigest() != self._dataset.record(record).checksum:
            raise ContentDamaged

    def is_sound(self, record: int) -> bool:
        """Returns whether a file's content matches its checksum."""
        try:
            for _ in self.pieces(record):
                pass
        except ContentDamaged:
            return False
        return True

    def _read(self, offset: int, length: int) -> bytes:
        self._stream.seek(offset)
        return self._stream.read(length)
