"""A large file that is not on this node is mapped by need: through the map server or, without one,
where the shared file system has it."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import inprocess
import pytest
from mpiexec import needs_ranks
from ranks import RankStage, make_rank_stage

from fanstore.job.maps import problem

pytestmark = needs_ranks
needs_fuse = pytest.mark.skipif(bool(problem()), reason=f"no map server here: {problem()}")

PROGRAM = Path(__file__).parent.parent / "support" / "mapping_reader.py"
SERVED = " /0"  # as /proc/self/maps shows the first file on the map server's mount
LARGE_BYTES, SHORT_BYTES = (9 << 20) + 12345, (1 << 20) + 777


@pytest.fixture
def stage(tmp_path: Path) -> RankStage:
    return make_rank_stage(tmp_path)


def make_source(stage: RankStage, size: int = LARGE_BYTES) -> Path:
    source = stage.path / "source"
    source.mkdir()
    (source / "first").write_bytes(b"neighbour" * 10_000)
    (source / "large").write_bytes(random.Random(1).randbytes(size))
    (source / "last").write_bytes(b"neighbour" * 10_000)
    return source


def pack(stage: RankStage, source: Path, codec: str = "store") -> Path:
    """A dataset of one pack, which rank 0 has."""
    dataset = stage.path / "dataset"
    options = ("--partitions", "1", "--codec", codec)
    inprocess.call("prepare", "--quiet", source, dataset, *options)
    return dataset


def run(
    stage: RankStage,
    dataset: Path,
    source: Path,
    mapped: str,
    *options: str,
    before: tuple[str, ...] = (),
    neighbours: str = "off",
    maps: str = "off",
) -> None:
    plain = stage.path / "plain"
    plain.mkdir()
    (plain / "large").write_bytes((source / "large").read_bytes())
    command = (*before, sys.executable, str(PROGRAM), str(plain / "large"), mapped)
    settings = {"FANSTORE_NEIGHBOURS": neighbours, "FANSTORE_MAPS": maps}
    stage.run_ranks(2, dataset, *command, options=options, **settings)
    stage.assert_clean()


@needs_fuse
def test_served(stage: RankStage) -> None:
    source = make_source(stage)
    run(stage, pack(stage, source), source, SERVED, maps="on")


@needs_fuse
def test_a_directory_served(stage: RankStage) -> None:
    source = make_source(stage)
    options = ("--stage", "lazy", "--local-bytes", "1M")
    run(stage, source, source, SERVED, *options, maps="on")


def test_packed(stage: RankStage) -> None:
    source = make_source(stage)
    dataset = pack(stage, source)
    run(stage, dataset, source, f"{dataset}/pack-00000.fsp")


@pytest.mark.parametrize("size", [SHORT_BYTES, LARGE_BYTES])
def test_of_a_neighbour(stage: RankStage, size: int) -> None:
    """The neighbour's pack is mapped, whatever the size; and it does not grow into what follows."""
    source = make_source(stage, size)
    theirs = str(stage.local_of(0).resolve())
    run(stage, pack(stage, source), source, theirs, neighbours="on", maps="on")


def test_directory(stage: RankStage) -> None:
    source = make_source(stage)
    run(stage, source, source, f"{source}/large", "--stage", "lazy", "--local-bytes", "1M")


@pytest.mark.parametrize(
    ("size", "codec"),
    [
        (SHORT_BYTES, "store"),
        pytest.param(LARGE_BYTES, "zstd", marks=pytest.mark.soak),
        pytest.param(LARGE_BYTES, "lz4", marks=pytest.mark.soak),
    ],
)
def test_copied_where_it_cannot_be(stage: RankStage, size: int, codec: str) -> None:
    source = make_source(stage, size)
    if codec != "store":
        (source / "large").write_bytes((b"text %d" % size * size)[:size])
    run(stage, pack(stage, source, codec), source, "/memfd:fanstore-map", maps="on")


def test_the_shared_pack_is_gone_or_damaged(stage: RankStage) -> None:
    source = make_source(stage)
    dataset = pack(stage, source)
    before = ("sh", "-c", 'truncate -s 8M "$0"; exec "$@"', f"{dataset}/pack-00000.fsp")
    run(stage, dataset, source, "/memfd:fanstore-map", before=before)


def test_in_place_whatever_its_size(stage: RankStage) -> None:
    source = make_source(stage, SHORT_BYTES)
    dataset = pack(stage, source)
    run(stage, dataset, source, f"{dataset}/pack-00000.fsp", "--in-place")
