"""How much smaller a dataset would be compressed, and how fast it is decoded: tried on some of its
files."""

from __future__ import annotations

import stat
import time
from typing import Any

import zstandard

from fanstore.arrays import np
from fanstore.dataset import Dataset

_FILES = 64
_BYTES_MOST = 16 << 20
_STORED = 0  # the codec of what is stored as it is


def tried(dataset: Dataset) -> dict[str, float] | None:
    """Returns `ratio`, bytes by compressed bytes (zstd), and `decode_bytes_per_s` of one core; None
    where the dataset is compressed already, or empty."""
    content = b"".join(_some(dataset))
    if not content:
        return None
    packed = zstandard.ZstdCompressor().compress(content)
    begin_s = time.perf_counter()
    zstandard.ZstdDecompressor().decompress(packed)
    seconds = max(1e-9, time.perf_counter() - begin_s)
    return {"ratio": len(content) / len(packed), "decode_bytes_per_s": len(content) / seconds}


def _some(dataset: Dataset) -> list[bytes]:
    """Returns the content of files all over the dataset that are stored as they are."""
    records: Any = dataset.records
    regular = (records["mode"] & 0o170000) == stat.S_IFREG
    ids = np.flatnonzero(regular & (records["codec"] == _STORED) & (records["logical_size"] > 0))
    found, left = [], _BYTES_MOST
    for record in ids[:: max(1, len(ids) // _FILES)].tolist():
        row = records[record]
        with dataset.pack_path(int(row["pack"])).open("rb") as stream:
            stream.seek(int(row["offset"]))
            found.append(stream.read(min(left, int(row["stored_size"]))))
        left -= len(found[-1])
    return found
