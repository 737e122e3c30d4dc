"""Writes shards of two libraries, if they are installed: shards.py DIRECTORY."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_SAMPLES = 8000


def _write(place: Path) -> None:
    samples = [
        {"image": number.to_bytes(40, "little"), "kind": number % 10} for number in range(_SAMPLES)
    ]
    if importlib.util.find_spec("streaming"):
        from streaming import MDSWriter

        columns = {"image": "bytes", "kind": "int"}
        with MDSWriter(out=str(place / "mds"), columns=columns, size_limit=1500) as out:
            for sample in samples:
                out.write(sample)
    if importlib.util.find_spec("litdata"):
        from litdata.streaming.writer import BinaryWriter

        out = BinaryWriter(str(place / "litdata"), chunk_size=20)
        for number, sample in enumerate(samples):
            out[number] = sample
        out.done()
        out.merge()


_write(Path(sys.argv[1]))
