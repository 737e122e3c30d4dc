"""Dataset.read_into: many files of one size by one call."""

from __future__ import annotations

from pathlib import Path

import inprocess
import numpy as np
import pytest

import fanstore
from fanstore import DatasetDamaged


@pytest.fixture(params=("store", "zstd"))
def packed(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(6):
        (source / f"{number}").write_bytes(bytes([number]) * 999)
    (source / "longer").write_bytes(b"x" * 1000)
    inprocess.call("prepare", "--quiet", "--codec", request.param, source, tmp_path / "data.fan")
    return tmp_path / "data.fan"


def test_rows_are_the_files(packed: Path) -> None:
    with fanstore.Dataset(packed) as dataset:
        rows = np.zeros((3, 999), np.uint8)
        dataset.read_into([4, 0, 4], rows)
        assert [row.tobytes() for row in rows] == [dataset[4], dataset[0], dataset[4]]
        assert dataset.size_of(-1) == 1000
        with pytest.raises(IndexError, match="there are 7 files"):
            dataset.read_into([0, 1, 7], rows)
        for numbers in ([0, 1, 6], [0, 1]):
            with pytest.raises(ValueError, match="rows are"):
                dataset.read_into(numbers, rows)
    with pytest.raises(ValueError, match="closed"):
        dataset.read_into([0, 1, 2], rows)


def test_damage_is_named(packed: Path) -> None:
    pack = packed / "pack-00000.fsp"
    with fanstore.Dataset(packed) as dataset:
        row = dataset._index.records[dataset._files[2]]
        content = bytearray(pack.read_bytes())
        content[int(row["offset"]) + 5] ^= 0xFF
        pack.write_bytes(content)
        with pytest.raises(DatasetDamaged, match="content of 2"):
            dataset.read_into([1, 2], np.zeros((2, 999), np.uint8))
