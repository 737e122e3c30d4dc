"""What is kept of staged datasets: who may let go of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fanstore.staging import resident
from fanstore.staging.base import StagingFolder
from fanstore.staging.staged import StagedDirectory, sweep_datasets

ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def base(tmp_path: Path) -> StagingFolder:
    return StagingFolder(str(tmp_path))


def held(base: StagingFolder, keep: bool = False) -> StagedDirectory:
    """A job's hold on the dataset, in which one record is resident."""
    staged = StagedDirectory(base, ID)
    with base.locked():
        staged.hold(keep)
        resident.make_resident(staged.path, 64, 1, lambda: None)
    Path(staged.path, "pack-00000.fsp.sparse").touch()
    return staged


def sweep(base: StagingFolder) -> bool:
    """Removes what nobody uses; tells whether the dataset is still there."""
    with base.locked():
        sweep_datasets(base)
    return os.path.isdir(os.path.join(base.folder("datasets"), ID))


def test_who_may_not_forget_what_is_kept_still_holds_it(base: StagingFolder) -> None:
    one, other = held(base), held(base)
    assert not one.forget_partial(lambda: None)
    other.release(keep=False)
    assert sweep(base)
    assert one.forget_partial(lambda: None)
    one.release(keep=False)
    assert not sweep(base)


def test_a_job_that_keeps_nothing_leaves_the_mark_of_one_that_does(base: StagingFolder) -> None:
    keeper, other = held(base, keep=True), held(base)
    other.release(keep=False)
    os.close(keeper._fd or -1)  # killed
    assert sweep(base)
    held(base).release(keep=False)
    assert not sweep(base)


def test_bits_become_claims(base: StagingFolder) -> None:
    """And what was claimed already stays so."""
    staged = held(base, keep=True)
    path = Path(staged.path, "resident")
    size, word = path.stat().st_size, (0b101).to_bytes(8, "little")
    with path.open("r+b") as stream:
        stream.seek(size - 32)  # bits and claims have two words each, and an inode is before them
        stream.write(word + bytes(8) + (0b10).to_bytes(8, "little"))
    inode = os.stat(os.path.join(staged.path, "pack-00000.fsp.sparse")).st_ino
    with path.open("r+b") as stream:
        stream.seek(size - 40)
        stream.write(inode.to_bytes(8, "little"))
    staged.release(keep=True)
    held(base, keep=True).release(keep=True)
    content = path.read_bytes()
    assert len(content) == size
    assert content[-32:] == bytes(16) + (0b111).to_bytes(8, "little") + bytes(8)
