"""Which files of a damaged pack are damaged: each is decoded and its checksum compared."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

import xxhash

from fanstore._native import lib
from fanstore.dataset import Dataset


class _Unreadable(Exception):
    """The stored bytes of a file cannot be its content."""


def _read(stream: BinaryIO, offset: int, length: int, end: int) -> bytes:
    if offset < 0 or length < 0 or offset + length > end:
        raise _Unreadable
    stream.seek(offset)
    data = stream.read(length)
    if len(data) != length:
        raise _Unreadable
    return data


def _decode(codec: int, stored: bytes, logical_bytes: int) -> bytes:
    """One block of a compressed file."""
    if codec == lib.FAN_CODEC_ZSTD:
        import zstandard

        try:
            data = zstandard.ZstdDecompressor().decompress(stored, max_output_size=logical_bytes)
        except zstandard.ZstdError as error:
            raise _Unreadable from error
    else:
        import lz4.block

        try:
            data = lz4.block.decompress(stored, uncompressed_size=logical_bytes)
        except (lz4.block.LZ4BlockError, ValueError, MemoryError) as error:
            raise _Unreadable from error
    if len(data) != logical_bytes:
        raise _Unreadable
    return bytes(data)


def _table(stream: BinaryIO, offset: int, blocks: int, stored_bytes: int) -> list[int]:
    """Where each block starts, and the end, from the start of the stored bytes."""
    if blocks == 1:
        return [0, stored_bytes]
    table = _read(stream, offset, blocks * 8, offset + stored_bytes)
    ends = [int.from_bytes(table[i : i + 8], "little") for i in range(0, len(table), 8)]
    return [len(table), *ends]


class _Pack:
    """A pack file being checked."""

    def __init__(self, dataset: Dataset, pack: int, stream: BinaryIO) -> None:
        self.dataset = dataset
        self.stream = stream
        self.file_bytes = dataset.pack_info(pack).file_bytes

    def pieces(self, record: int) -> Iterator[bytes]:
        """The logical content of a file, in pieces of at most a block."""
        row = self.dataset.records[record]
        offset, codec = int(row["offset"]), int(row["codec"])
        logical, stored = int(row["logical_size"]), int(row["stored_size"])
        step = self.dataset.block_bytes
        if logical == 0:
            return
        if codec == lib.FAN_CODEC_STORE:
            for at in range(0, logical, step):
                yield _read(self.stream, offset + at, min(step, logical - at), self.file_bytes)
            return
        blocks = -(-logical // step)
        starts = _table(self.stream, offset, blocks, stored)
        for number in range(blocks):
            start, end = starts[number], starts[number + 1]
            size = min(step, logical - number * step)
            if not 0 <= start <= end <= stored:
                raise _Unreadable
            data = _read(self.stream, offset + start, end - start, self.file_bytes)
            plain = blocks > 1 and len(data) == size
            yield data if plain else _decode(codec, data, size)

    def is_sound(self, record: int) -> bool:
        """Whether a file's content has its checksum."""
        digest = xxhash.xxh3_64()
        try:
            for piece in self.pieces(record):
                digest.update(piece)
        except _Unreadable:
            return False
        return digest.intdigest() == int(self.dataset.records[record]["checksum"])


def damaged_records(
    dataset: Dataset, pack: int, path: str | os.PathLike[str], check: Callable[[], None]
) -> list[int]:
    """The ids of the damaged files of a pack whose copy is at `path`; `check` may raise."""
    damaged = []
    with open(path, "rb") as stream:
        reader = _Pack(dataset, pack, stream)
        for record in dataset.records_of_pack(pack).tolist():
            check()
            if not reader.is_sound(record):
                damaged.append(record)
    return damaged
