"""Datasets that an earlier version made stay readable: by every tool, and as files of a job."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from serving import Stage, make_stage
from soak import one_of

from fanstore._native import lib
from fanstore.dataset import open_dataset

GOLDEN = Path(__file__).with_name("golden")
DESCRIBE = GOLDEN / "describe.py"
DATASETS = sorted(path.parent for path in GOLDEN.glob("v*/*/index.fsi"))


def label(dataset: Path) -> str:
    return f"{dataset.parent.name}-{dataset.name}"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def expected(dataset: Path) -> object:
    """What the packed tree held."""
    return json.loads((dataset.parent / "tree.json").read_text())


def test_each_codec_is_there() -> None:
    assert [label(dataset) for dataset in DATASETS] == [
        f"{version}-{codec}" for version in ("v1", "v2", "v3") for codec in ("lz4", "store", "zstd")
    ]


@pytest.mark.parametrize("dataset", one_of(2, DATASETS), ids=label)
def test_verified_and_extracted(stage: Stage, dataset: Path) -> None:
    stage.call("verify", str(dataset))
    back = stage.path / "back"
    stage.call("extract", str(dataset), str(back))
    said = subprocess.run([sys.executable, DESCRIBE, back], check=True, capture_output=True)
    assert json.loads(said.stdout) == expected(dataset)


@pytest.mark.skipif(os.geteuid() != 0, reason="some of its files only root may read")
@pytest.mark.parametrize("dataset", one_of(3, DATASETS), ids=label)
def test_read_in_a_job(stage: Stage, dataset: Path) -> None:
    done = stage.run(dataset, sys.executable, str(DESCRIBE), str(stage.mount))
    assert json.loads(done.stdout) == expected(dataset)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_an_update_writes_the_new_version(stage: Stage, version: str) -> None:
    data, source = stage.path / "data", stage.path / "source"
    shutil.copytree(GOLDEN / version / "lz4", data)
    stage.call("extract", str(data), str(source))
    if os.geteuid() == 0:  # anybody else has made files of another owner
        before = (data / "index.fsi").read_bytes()
        stage.call("prepare", "--update", str(source), str(data))
        assert (data / "index.fsi").read_bytes() == before
    (source / "more").write_bytes(b"more")
    stage.call("prepare", "--update", str(source), str(data))
    with open_dataset(data) as dataset:
        assert dataset.header.version == lib.FAN_INDEX_VERSION
        assert dataset.pack_info(0).flags & lib.FAN_PACK_KEPT
    stage.call("verify", str(data))
    stage.run(data, "diff", "-r", str(source), str(stage.mount))
