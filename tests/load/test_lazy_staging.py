"""Staging while the job runs: what is staged is told, what is not stays where it lies."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

import pytest
from serving import Stage, flip, make_stage
from small_disk import small_disk

from fanstore.dataset import Dataset, open_dataset, pack_name
from fanstore.load import stage as staging
from fanstore.load.base import Base
from fanstore.load.lazy import LazyPart, LazyStager
from fanstore.load.stage import StageReport
from fanstore.load.staged import StagedDirectory

SIZES = (
    "import os, sys\n"
    "for name in sorted(os.listdir(sys.argv[1])):\n"
    "    print(name, len(open(os.path.join(sys.argv[1], name), 'rb').read()))\n"
)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@dataclass
class Lazy:
    """A dataset of ten packs and what a lazy stager makes of it."""

    part: LazyPart
    found: dict[int, list[int]] = field(default_factory=dict)

    def stager(self, threads: int = 2) -> LazyStager:
        """One that notes what it stages."""
        return LazyStager([self.part], threads, self.note)

    def note(self, mount: int, pack: int, damaged: list[int]) -> None:
        """As the daemon is told of a pack."""
        assert mount == self.part.mount
        assert self.copy(pack).exists() and pack not in self.found
        self.found[pack] = damaged

    def copy(self, pack: int) -> Path:
        """Where a pack is staged."""
        return Path(self.part.staged.file(pack_name(pack)))

    def parts(self) -> list[str]:
        """What is half copied."""
        return [name for name in os.listdir(self.part.staged.path) if name.endswith(".part")]


@pytest.fixture
def lazy(stage: Stage) -> Iterator[Lazy]:
    files = {f"f{n}": os.urandom(100_000) for n in range(10)}
    source = stage.source(files=files)
    target = stage.path / "data"
    stage.call("prepare", str(source), str(target), "--partitions", "10")
    with open_dataset(target) as dataset, lazily(stage, dataset) as made:
        yield made


@contextlib.contextmanager
def lazily(stage: Stage, dataset: Dataset) -> Iterator[Lazy]:
    """A hold on the staged directory of a dataset."""
    base = Base(str(stage.local))
    staged = StagedDirectory(base, dataset.dataset_id)
    with base.locked():
        staged.hold()
    packs = range(dataset.pack_count)
    yield Lazy(LazyPart(3, dataset, staged, packs, StageReport()))
    staged.release(keep=False)


@pytest.mark.parametrize("threads", [1, 3])
def test_lazy_staging_copies_every_pack_and_says_so(lazy: Lazy, threads: int) -> None:
    stager = lazy.stager(threads)
    stager.start()
    assert stager.wait(30.0)
    assert lazy.found == {pack: [] for pack in range(10)}
    for pack in range(10):
        assert lazy.copy(pack).read_bytes() == lazy.part.dataset.pack_path(pack).read_bytes()
    assert lazy.part.report.copied_packs == 10
    assert lazy.part.report.shared_bytes == lazy.part.report.copied_bytes > 1_000_000
    assert stager.warnings == []
    again = LazyStager([lazy.part], 1, lambda *_: None)
    again.start()
    assert again.wait(30.0)
    assert lazy.part.report.reused_packs == 10


def test_lazy_staging_tells_of_damage(lazy: Lazy) -> None:
    dataset = lazy.part.dataset
    record = dataset.lookup(b"f4")
    pack = int(dataset.records[record]["pack"])
    flip(dataset.pack_path(pack), int(dataset.records[record]["offset"]) + 10)
    stager = lazy.stager()
    stager.start()
    assert stager.wait(30.0)
    assert lazy.found == {n: [record] if n == pack else [] for n in range(10)}
    assert lazy.part.report.damaged == {pack: [record]}


def test_lazy_staging_goes_on_where_a_pack_cannot_be_staged(lazy: Lazy) -> None:
    broken, missing = (lazy.part.dataset.pack_path(pack) for pack in (2, 5))
    flip(broken, 0)
    missing.unlink()
    stager = lazy.stager()
    stager.start()
    assert stager.wait(30.0)
    assert sorted(lazy.found) == [0, 1, 3, 4, 6, 7, 8, 9]
    first, second = sorted(stager.warnings)
    assert first.startswith(f"{broken}: not staged: ") and "magic" in first
    assert second.startswith(f"{missing}: not staged: ") and "No such file" in second
    assert lazy.parts() == []


def test_lazy_staging_stops_between_two_chunks(lazy: Lazy, monkeypatch: pytest.MonkeyPatch) -> None:
    writing, go = threading.Event(), threading.Event()
    monkeypatch.setattr(staging, "CHUNK_BYTES", 4096)

    def write_slowly(stream: FileIO, data: memoryview) -> None:
        stream.write(data)
        writing.set()
        assert go.wait(30.0)

    monkeypatch.setattr(staging, "write_all", write_slowly)
    stager = lazy.stager()
    stager.start()
    assert writing.wait(30.0)
    assert not stager.close(timeout_s=0.0)
    go.set()
    assert stager.wait(30.0)
    assert lazy.found == {} and lazy.parts() == [] and stager.warnings == []


def test_a_pack_that_comes_after_the_end_is_not_told(
    lazy: Lazy, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncing, go = threading.Event(), threading.Event()

    def sync_slowly(stream: FileIO) -> None:
        syncing.set()
        assert go.wait(30.0)

    monkeypatch.setattr(staging, "sync", sync_slowly)
    stager = lazy.stager(threads=1)
    stager.start()
    assert syncing.wait(30.0)
    stager.close(timeout_s=0.0)
    go.set()
    assert stager.wait(30.0)
    assert lazy.copy(0).exists() and lazy.found == {}


def test_a_lazy_stager_that_was_not_started_closes(lazy: Lazy) -> None:
    assert lazy.stager().close()


def test_lazy_staging_lives_with_a_disk_that_fills_up(
    lazy: Lazy, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = staging.write_all

    def refuse_some(stream: FileIO, data: memoryview) -> None:
        if "pack-00003" in str(stream.name) or "pack-00004" in str(stream.name):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), stream.name)
        real(stream, data)

    monkeypatch.setattr(staging, "write_all", refuse_some)
    stager = lazy.stager()
    stager.start()
    assert stager.wait(30.0)
    assert sorted(lazy.found) == [0, 1, 2, 5, 6, 7, 8, 9]
    (warning,) = stager.warnings
    assert warning.startswith(f"{lazy.part.staged.path}: the disk is full: 2 packs (0.2 MiB")
    assert lazy.parts() == []


def test_lazy_staging_on_a_small_disk_leaves_what_does_not_fit(stage: Stage) -> None:
    source = stage.source(files={f"f{n}": os.urandom(300_000) for n in range(6)})
    target = stage.path / "data"
    stage.call("prepare", str(source), str(target), "--partitions", "6")
    with (
        small_disk(stage.local),
        open_dataset(target) as dataset,
        lazily(stage, dataset) as found,
    ):
        stager = found.stager()
        stager.start()
        assert stager.wait(30.0)
        staged = len(found.found)
        assert staged in (2, 3)  # two at a time: the third may have had to share the room
        (warning,) = stager.warnings
        assert f"the disk is full: {6 - staged} packs (" in warning
        assert found.parts() == []
        found.part.dataset.close()


@pytest.mark.parametrize("options", [(), ("--stage", "full")])
def test_a_lazy_job_starts_where_a_full_one_is_refused(
    stage: Stage, options: tuple[str, ...]
) -> None:
    source = stage.source(files={f"f{n}": os.urandom(300_000) for n in range(6)})
    dataset = stage.dataset(source)
    with small_disk(stage.local):
        refused = stage.run(dataset, "true", options=options, code=125)
        assert "are needed" in refused.stderr and "--stage lazy" in refused.stderr
        argv = (sys.executable, "-c", SIZES, str(stage.mount))
        done = stage.run(dataset, *argv, options=("--stage", "lazy"))
    assert done.stdout.splitlines() == [f"{name} 300000" for name in sorted(stage.files)]
