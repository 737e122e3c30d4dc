"""Large files start where large pages can map them; nothing else of a dataset changes by that."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from inprocess import call

from fanstore._native import lib
from fanstore.dataset import open_dataset

ALIGN, THRESHOLD = int(lib.FAN_HUGE_ALIGN_BYTES), int(lib.FAN_HUGE_THRESHOLD_BYTES)
SIZES = {"a-small": 5, "b-large": THRESHOLD + 3, "c-below": THRESHOLD - 1, "d-large": THRESHOLD}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    root.mkdir()
    for name, size in SIZES.items():
        with (root / name).open("wb") as file:
            file.write(name.encode()[:size])
            file.truncate(size)
    return root


def offsets(data: Path) -> dict[str, tuple[int, int]]:
    """The codec of each file, and where its content starts."""
    with open_dataset(data) as dataset:
        return {
            dataset.relpath(number).decode(): (row.codec, row.offset)
            for number in range(int(dataset.header.record_count))
            if stat.S_ISREG((row := dataset.record(number)).mode)
        }


def check(source: Path, data: Path, out: Path) -> None:
    """The dataset is sound, holds the source, and has its large files on large pages."""
    call("verify", data)
    call("extract", data, out)
    for name in SIZES:
        assert (out / name).read_bytes() == (source / name).read_bytes()
    found = offsets(data)
    assert [found[name][1] % ALIGN for name in ("b-large", "d-large")] == [0, 0]
    # What is smaller costs no padding.
    assert found["c-below"][1] % ALIGN != 0 and found["a-small"][1] % ALIGN != 0


def test_large_files_start_on_large_pages(tmp_path: Path, source: Path) -> None:
    data = tmp_path / "data"
    call("prepare", "--partitions=1", source, data)
    check(source, data, tmp_path / "out")
    before = (data / "index.fsi").read_bytes()
    (data / "index.fsi").unlink()
    call("dataset", "rebuild-index", data)
    assert (data / "index.fsi").read_bytes() == before


def test_an_update_keeps_them_and_aligns_new_ones(tmp_path: Path, source: Path) -> None:
    data = tmp_path / "data"
    call("prepare", "--partitions=1", source, data)
    before = offsets(data)["b-large"]
    (source / "d-large").write_bytes(bytes(range(256)) * (THRESHOLD // 256))
    call("prepare", "--update", source, data)
    check(source, data, tmp_path / "out")
    assert offsets(data)["b-large"] == before


def test_what_is_compressed_is_not_padded(tmp_path: Path, source: Path) -> None:
    data = tmp_path / "data"
    call("prepare", "--partitions=1", "--codec=lz4", source, data)
    call("verify", data)
    assert sum(path.stat().st_size for path in data.glob("*.fsp")) < ALIGN
    assert {codec for codec, _ in offsets(data).values() if codec} == {lib.FAN_CODEC_LZ4}
