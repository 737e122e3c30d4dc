"""Ranks of one node read each other's staged packs as their own; ranks elsewhere do not."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import inprocess
import pytest
import trees
from fault_tools import Ranks, make_ranks, reader, with_errno
from mpiexec import needs_ranks
from ranks import RankStage, assert_all_ok, make_rank_stage, total
from serving import find_content, flip, wait_for
from soak import sampled

from fanstore.job import neighbours
from fanstore.startup import World

pytestmark = needs_ranks

ON = {"FANSTORE_NEIGHBOURS": "on"}
SIZE = 2
PACKS = 4
WAYS = ("preads", "seeks", "mapped", "sendfile", "cat", "piped", "numpy_arrays", "forked")


@pytest.fixture
def stage(tmp_path: Path) -> RankStage:
    return make_rank_stage(tmp_path)


def some_ranks(path: Path, *options: str) -> Ranks:
    chance = random.Random(5)
    files = {f"f{n:02}": chance.randbytes(30_000 + 1_001 * n) for n in range(16)}
    files |= {f"large{n}": chance.randbytes(2_500_000) for n in range(4)}
    return make_ranks(path, files, "--partitions", str(PACKS), *options)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """A dataset that tests only read."""
    return some_ranks(tmp_path_factory.mktemp("neighbours"))


def packed(stage: RankStage, codec: str) -> tuple[Path, Path]:
    """A dataset of files of all sizes with odd names, and a snapshot of them."""
    source, dataset, snapshot = (stage.path / name for name in ("plain", "data", "seen"))
    trees.make_odd_tree(source)
    options = ("--partitions", "8", "--codec", codec)
    inprocess.call("prepare", "--quiet", source, dataset, *options)
    snapshot.write_bytes(pickle.dumps(trees.snapshot(source)))
    return dataset, snapshot


def asked(ranks: Ranks, rank: int) -> int:
    """How many files the rank's programs have asked their daemon for."""
    return int(ranks.status(rank)["counters"].get("remote_opens", 0))


@pytest.mark.parametrize(("world_size", "codec"), [(2, "store"), (2, "lz4"), (4, "zstd")])
@pytest.mark.soak
def test_every_rank_reads_every_file(stage: RankStage, world_size: int, codec: str) -> None:
    dataset, snapshot = packed(stage, codec)
    tasks: dict[str, Any] = {"crowd": [str(snapshot), 2], "note": ["end"]}
    path, argv = stage.reader(tasks)
    stage.finished(stage.run_argv(world_size, [dataset], argv), **ON)
    said = [json.loads((path.parent / f"{rank}.json").read_text()) for rank in range(world_size)]
    stage.assert_clean([name for rank in said for name in rank["shm"]])
    assert_all_ok(said)
    # Nothing came by message, to a client or ahead of it.
    assert total(said, "end", "node", "fetches") == 0
    assert total(said, "end", "counters", "shared_reads") == 0


@pytest.mark.soak
def test_every_way_to_read(stage: RankStage) -> None:
    source, dataset = stage.path / "plain", stage.path / "data"
    source.mkdir()
    for number, size in enumerate([0, 1, 65_536, 2_000_000, 3_000_001]):
        (source / f"f{number}").write_bytes(random.Random(number).randbytes(size))
    inprocess.call("prepare", "--quiet", source, dataset, "--partitions", "2")
    tasks: dict[str, Any] = {way: [] for way in WAYS} | {"preads": [100], "note": ["end"]}
    path, argv = stage.reader(tasks, source=str(source))
    stage.finished(stage.run_argv(SIZE, [dataset], argv), **ON)
    said = [json.loads((path.parent / f"{rank}.json").read_text()) for rank in range(SIZE)]
    assert_all_ok(said)
    assert total(said, "end", "node", "fetches") == 0


@pytest.mark.parametrize(
    "what", sampled([("daemon",), ("daemon", "wrapper", "command")], [("daemon",)])
)
def test_a_neighbour_that_dies(shared: Ranks, what: tuple[str, ...]) -> None:
    """A client keeps the packs of a dead neighbour that it has mapped."""
    with shared.running(SIZE, reader("a", "b", "end"), **ON) as run:
        assert run.step("a") == [shared.whole] * SIZE
        assert asked(shared, 0) == 0
        run.kill(1, *what)
        assert run.step("b", ranks=[0]) == [shared.whole]
        assert asked(shared, 0) == 0
        run.step("end", ranks=[0])  # until then the daemon answers
        run.end()
    run.check_nothing_left(killed=[1] if len(what) > 1 else [])


# Reads all files in a program that starts when "go" is there.
NEW_PROGRAM = """
import json, os, subprocess, sys, time
here, rank, root = sys.argv[1], os.environ["FANSTORE_RANK"], os.environ["FANSTORE_MOUNT_PREFIX"]
open(f"{here}/ready-{rank}", "w").close()
while not os.path.exists(f"{here}/go"):
    time.sleep(0.005)
names = sorted(os.listdir(root))
found = subprocess.run(["sha256sum", *names], cwd=root, capture_output=True, text=True)
with open(f"{here}/said-{rank}.part", "w") as stream:
    json.dump({line.split()[1]: line.split()[0] for line in found.stdout.splitlines()}, stream)
os.rename(f"{here}/said-{rank}.part", f"{here}/said-{rank}")
"""


def test_a_neighbour_whose_files_are_gone(tmp_path: Path) -> None:
    """A program that starts then reads the shared file system."""
    ranks = some_ranks(tmp_path)
    command = [sys.executable, "-c", NEW_PROGRAM, str(tmp_path)]
    with ranks.running(SIZE, command, **ON) as run:
        for rank in range(SIZE):
            wait_for((tmp_path / f"ready-{rank}").exists, f"rank {rank} to begin")
        run.kill(1, "daemon", "wrapper", "command")
        for made in ranks.local(1).iterdir():
            shutil.rmtree(made, ignore_errors=True)
        (tmp_path / "go").touch()
        wait_for((tmp_path / "said-0").exists, "rank 0 to read")
        run.end()
        assert json.loads((tmp_path / "said-0").read_text()) == ranks.whole
    wait_for(lambda: not run.left(killed=[1]), "rank 0 to tidy up")


def test_a_damaged_pack_of_a_neighbour(tmp_path: Path) -> None:
    """Its bytes are read by nobody, whoever asks."""
    ranks = some_ranks(tmp_path)
    name = min(ranks.owned(1, SIZE))
    flip(*find_content(ranks.dataset, ranks.files[name]))
    with ranks.running(SIZE, reader("a"), **ON) as run:
        assert run.step("a") == [with_errno(ranks.whole, [name])] * SIZE
        run.end()


@pytest.mark.parametrize("mode", sampled(["full", "plan", "lazy"], ["lazy"]))
def test_what_a_neighbour_kept_is_checked_first(tmp_path: Path, mode: str) -> None:
    ranks = some_ranks(tmp_path)
    options = ("--keep-staged", "--stage", mode)
    with ranks.running(SIZE, reader("a"), *options, **ON) as run:
        assert run.step("a") == [ranks.whole] * SIZE
        run.end()
    packs = list(ranks.stage.local.glob("*/.fanstore-*/datasets/*/pack-*.fsp*"))
    packs = [pack for pack in packs if pack.name.endswith((".fsp", ".sparse"))]
    assert packs
    for pack in packs:
        before = pack.stat()
        for at in range(5000, before.st_size - 5000, 50_000):
            flip(pack, at)
        os.utime(pack, ns=(before.st_atime_ns, before.st_mtime_ns))
    with ranks.running(SIZE, reader("a", "b"), *options, **ON) as run:
        assert run.step("a") == [ranks.whole] * SIZE
        assert run.step("b") == [ranks.whole] * SIZE
        run.end()


@pytest.mark.parametrize("mode", sampled(["plan", "lazy"], ["lazy"]))
def test_records_that_come_while_the_job_runs(shared: Ranks, mode: str) -> None:
    options = ("--stage", mode)
    with shared.running(SIZE, reader("a", "b", "end"), *options, **ON) as run:
        assert run.step("a") == [shared.whole] * SIZE
        before = asked(shared, 0)
        assert run.step("b") == [shared.whole] * SIZE
        assert asked(shared, 0) == before  # all are resident at one of the two
        run.step("end")  # until then the daemons answer
        run.end()


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("unshare") is None, reason="mount namespaces")
def test_a_rank_that_sees_other_file_systems_is_asked(stage: RankStage) -> None:
    """Such a rank is asked over MPI, like a rank of another node."""
    source, dataset = stage.path / "plain", stage.path / "data"
    source.mkdir()
    for number in range(8):
        (source / f"f{number}").write_bytes(random.Random(number).randbytes(40_000))
    inprocess.call("prepare", "--quiet", source, dataset, "--partitions", "2")
    path, argv = stage.reader({"whole": [], "note": ["end"]}, source=str(source))
    run = stage.run_argv(SIZE, [dataset], argv)
    run[3:3] = ["unshare", "-m", "--propagation", "unchanged"]
    stage.finished(run, **ON)
    said = [json.loads((path.parent / f"{rank}.json").read_text()) for rank in range(SIZE)]
    assert_all_ok(said)
    assert total(said, "end", "counters", "remote_opens") >= 8


class Told(World):
    """The second of three ranks, with what the others tell."""

    rank, world_size = 1, 3

    def __init__(self, others: list[neighbours.Whereabouts | None]) -> None:
        self.others = others

    def gather_all(self, value: Any) -> list[Any]:
        return [self.others[0], value, self.others[1]]


def test_who_is_a_neighbour(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in ("a", "b", "c")]
    for directory in directories:
        directory.mkdir()
    first, own, third = (neighbours.whereabouts(str(each)) for each in directories)
    elsewhere = neighbours.Whereabouts(("boot", *first.node[1:]), third.directory, third.inode)
    user = neighbours.Whereabouts(
        (first.node[0], -1, *first.node[2:]), third.directory, third.inode
    )
    copied = neighbours.Whereabouts(third.node, third.directory, (0, 0))
    gone = neighbours.Whereabouts(third.node, str(tmp_path / "d"), third.inode)

    def found(other: neighbours.Whereabouts | None, wanted: bool = True) -> dict[int, str]:
        return neighbours.find_neighbours(Told([first, other]), own.directory, wanted)

    assert found(third) == {0: first.directory, 2: third.directory}
    for other in (elsewhere, user, copied, gone, None):
        assert found(other) == {0: first.directory}
    assert found(third, wanted=False) == {}
