"""FileDataset of directories, packed datasets and mounts."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from serving import make_stage

torch = pytest.importorskip("torch", reason="torch is not installed")

from loader_sets import packed, records  # noqa: E402

from fanstore.errors import FanstoreError  # noqa: E402
from fanstore.torch import FileDataset  # noqa: E402


@pytest.fixture
def source(tmp_path: Path) -> Path:
    top = records(tmp_path / "records")
    (top / "empty").write_bytes(b"")
    (top / "Z").write_bytes(b"zz")
    (top / os.fsdecode(b"odd \xff name")).write_bytes(b"odd")
    (top / "folder-1" / "deep" / "er").mkdir(parents=True)
    (top / "folder-1" / "deep" / "er" / "one").write_bytes(b"1")
    (top / "link").symlink_to("Z")
    (top / "loop").symlink_to(".")
    return top


def test_a_directory_and_its_packs_have_the_same_samples(source: Path) -> None:
    plain, packs = FileDataset(source), FileDataset(packed(source))
    paths = [plain.path_of(number) for number in range(len(plain))]
    assert paths == [packs.path_of(number) for number in range(len(packs))]
    assert "link" not in paths and len(paths) == 34
    for number, path in enumerate(paths):
        assert bytes(plain[number].tolist()) == (source / path).read_bytes()
        assert plain[number].equal(packs[number])
    assert plain[-1].equal(plain[len(plain) - 1])
    copy = pickle.loads(pickle.dumps(packs))
    assert copy[3].equal(packs[3])


def test_loader_and_transform_are_applied_in_that_order(source: Path) -> None:
    dataset = FileDataset(source, loader=len, transform=lambda size: -size)
    assert dataset[0] == -len((source / dataset.path_of(0)).read_bytes())


def test_what_is_not_there_is_said(source: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileDataset(tmp_path / "nothing")
    for dataset in (FileDataset(source), FileDataset(packed(source))):
        with pytest.raises(IndexError):
            dataset[len(dataset)]
    damaged = source.with_suffix(".fan") / "index.fsi"
    damaged.write_bytes(b"no index")
    with pytest.raises(FanstoreError):
        FileDataset(damaged.parent)


JOB = """
import os, sys, torch
from fanstore.torch import DataLoader, FileDataset
of_packs, of_mount = FileDataset(sys.argv[1]), FileDataset(os.environ["FANSTORE_MOUNT_PREFIX"])
assert of_packs.root == of_mount.root and len(of_mount) == 30
batches = [batch.clone() for batch in DataLoader(of_packs, 4, num_workers=2)]
assert torch.cat(batches).equal(torch.stack(list(of_mount)))
"""


def test_a_mounted_dataset_is_read_through_the_job_in_a_known_order(tmp_path: Path) -> None:
    dataset = packed(records(tmp_path / "records"))
    stage = make_stage(tmp_path)
    done = stage.run(dataset, sys.executable, "-c", JOB, str(dataset))
    assert done.returncode == 0, done.stderr
    assert "torch SequentialSampler" in done.stderr


def test_importing_it_without_torch_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch')")
    done = subprocess.run(
        [sys.executable, "-c", "import fanstore.torch"], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )  # fmt: skip
    assert "fanstore-fs[torch]" in done.stderr
