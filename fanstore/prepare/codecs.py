"""Chooses and runs the codec of a file, one block at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fanstore._native import lib
from fanstore.errors import UsageError

if TYPE_CHECKING:
    import zstandard

Buffer = bytes | bytearray | memoryview

# A file is stored compressed if its compressed size is at most this part of its logical size.
KEPT_PERCENT = 95
# `auto` compresses this many bytes of a block with lz4, and the whole block if that saves enough.
SAMPLE_BYTES = 65536

_LEVELS = {"lz4hc": (1, 12, 9), "zstd": (1, 22, 3)}
# The formats cannot make content smaller than by these factors.
_RATIO_MAX = {"store": 1, "zstd": 1 << 15}
_LZ4_RATIO_MAX = 255
NAMES = ("store", "lz4", "lz4hc", "zstd")
CHOICES = (*NAMES, "auto")


def saves_enough(stored_bytes: int, logical_bytes: int) -> bool:
    """Returns whether compression makes a file small enough to store it compressed."""
    return stored_bytes * 100 <= logical_bytes * KEPT_PERCENT


@dataclass
class Codec:
    """A codec with its level. Several threads may use it at once."""

    name: str
    level: int = 0
    _local: threading.local = field(default_factory=threading.local, repr=False)

    @property
    def stores(self) -> bool:
        """Whether this codec stores everything uncompressed."""
        return self.name == "store"

    @property
    def number(self) -> int:
        """The number of the codec for compressed content in the file formats."""
        if self.name == "auto":
            return int(lib.FAN_CODEC_LZ4)
        return int(getattr(lib, f"FAN_CODEC_{self.name.upper()}"))

    @property
    def ratio_max(self) -> int:
        """The largest factor by which this codec can make content smaller."""
        return _RATIO_MAX.get(self.name, _LZ4_RATIO_MAX)

    def __str__(self) -> str:
        return f"{self.name}:{self.level}" if self.level else self.name

    def compress(self, block: Buffer) -> bytes | None:
        """Returns the compressed form of a block; None if it is not smaller than the block."""
        packed = _FUNCTIONS[self.name](self, block)
        return packed if packed is not None and len(packed) < len(block) else None

    def zstd(self) -> zstandard.ZstdCompressor:
        """Returns the zstd compressor of the calling thread, which no other thread uses."""
        import zstandard

        if not hasattr(self._local, "zstd"):
            self._local.zstd = zstandard.ZstdCompressor(level=self.level)
        found: zstandard.ZstdCompressor = self._local.zstd
        return found


def _lz4(_: Codec, block: Buffer) -> bytes:
    import lz4.block

    return bytes(lz4.block.compress(block, store_size=False))


def _lz4hc(codec: Codec, block: Buffer) -> bytes:
    import lz4.block

    return bytes(
        lz4.block.compress(
            block, mode="high_compression", compression=codec.level, store_size=False
        )
    )


def _zstd(codec: Codec, block: Buffer) -> bytes:
    return codec.zstd().compress(block)


def _auto(codec: Codec, block: Buffer) -> bytes | None:
    sample = block[:SAMPLE_BYTES]
    packed = _lz4(codec, sample)
    if len(sample) == len(block) or not saves_enough(len(packed), len(sample)):
        return packed if len(sample) == len(block) else None
    return _lz4(codec, block)


_FUNCTIONS: dict[str, Callable[[Codec, Buffer], bytes | None]] = {
    "store": lambda _codec, _block: None,
    "lz4": _lz4,
    "lz4hc": _lz4hc,
    "zstd": _zstd,
    "auto": _auto,
}


def parse_codec(text: str) -> Codec:
    """Returns the codec that an option names: `store`, `lz4`, `lz4hc[:level]`, `zstd[:level]` or
    `auto`. Raises UsageError."""
    name, colon, level_text = text.partition(":")
    if name not in CHOICES:
        raise UsageError(f"unknown codec {text!r}; choose from {', '.join(CHOICES)}")
    if name not in _LEVELS:
        if colon:
            raise UsageError(f"codec {name} has no levels")
        return Codec(name)
    low, high, default = _LEVELS[name]
    if not colon:
        return Codec(name, default)
    if not level_text.isdecimal() or not low <= int(level_text) <= high:
        raise UsageError(f"the level of {name} is a number from {low} to {high}")
    return Codec(name, int(level_text))
