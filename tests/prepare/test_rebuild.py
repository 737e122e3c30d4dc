"""Making an index again from packs alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import xxhash
from trees import make_odd_tree

from fanstore.cli import main
from fanstore.dataset import open_dataset, pack_name


def fanstore(*arguments: object, code: int = 0) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert end.value.code == code


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset in four packs, one of them for every node."""
    top = tmp_path_factory.mktemp("rebuild")
    make_odd_tree(top / "tree")
    options = ["--partitions", "3", "--codec", "auto", "--replicate", "names", "--quiet"]
    fanstore("prepare", *options, top / "tree", top / "dataset")
    return top / "dataset"


@pytest.fixture
def dataset(prepared: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    copy = tmp_path / "dataset"
    copy.mkdir()
    for path in prepared.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    return copy


@pytest.mark.parametrize("found", [None, b"damaged"])
def test_the_same_bytes_come_out(dataset: Path, found: bytes | None) -> None:
    index = dataset / "index.fsi"
    original = index.read_bytes()
    before = sorted(os.listdir(dataset))
    index.unlink() if found is None else index.write_bytes(found)
    fanstore("dataset", "rebuild-index", dataset)
    assert index.read_bytes() == original
    assert sorted(os.listdir(dataset)) == before


def test_missing_packs_are_named(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dataset / "index.fsi").unlink()
    (dataset / pack_name(0)).unlink()
    (dataset / pack_name(2)).unlink()
    fanstore("dataset", "rebuild-index", dataset, code=3)
    message = capsys.readouterr().err
    assert pack_name(0) in message
    assert pack_name(2) in message
    assert pack_name(1) not in message
    assert not (dataset / "index.fsi").exists()


def test_no_packs(tmp_path: Path) -> None:
    fanstore("dataset", "rebuild-index", tmp_path, code=3)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("at", [0, 8, 20, 40, 56, -64, -50, -30, -8, -100, -3000])
def test_damaged_ends_of_packs_are_refused(dataset: Path, at: int) -> None:
    path = dataset / pack_name(0)
    original = (dataset / "index.fsi").read_bytes()
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    fanstore("dataset", "rebuild-index", dataset, code=3)
    assert (dataset / "index.fsi").read_bytes() == original


def test_packs_of_another_dataset_are_refused(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dataset / pack_name(1)).write_bytes((dataset / pack_name(2)).read_bytes())
    fanstore("dataset", "rebuild-index", dataset, code=3)
    assert pack_name(1) in capsys.readouterr().err


def test_damaged_content_is_not_vouched_for(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_dataset(dataset) as opened:
        record = opened.lookup(b"sizes/random-0065536")
        row = opened.records[record]
        pack, at = int(row["pack"]), int(row["offset"])
        del row
        before = opened.pack_info(pack).checksum
    with (dataset / pack_name(pack)).open("r+b") as file:
        file.seek(at)
        first = file.read(1)
        file.seek(at)
        file.write(bytes([first[0] ^ 1]))
    (dataset / "index.fsi").unlink()
    fanstore("dataset", "rebuild-index", dataset, code=3)
    assert "damaged: sizes/random-0065536\n" in capsys.readouterr().out
    with open_dataset(dataset, verify=True) as opened:
        whole = xxhash.xxh3_64_intdigest((dataset / pack_name(pack)).read_bytes())
        assert opened.pack_info(pack).checksum not in (before, whole)
    fanstore("verify", "--quiet", dataset, code=3)
    assert "damaged: sizes/random-0065536\n" in capsys.readouterr().out
