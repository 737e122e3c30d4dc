"""Several ranks stage one dataset: each pack read once in all, the rest over MPI."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import inprocess
import pytest
from mpiexec import KEEP, MPIEXEC, needs_ranks
from serving import Stage, find_content, flip, make_stage
from soak import sampled

from fanstore._native import lib
from fanstore.dataset import open_dataset
from fanstore.staging.placement import Packs, packs_by_rank, place

LIMIT_S = 60.0
PACKS = 8
STAGED, REMOTE = int(lib.FAN_PLACE_STAGED), int(lib.FAN_PLACE_REMOTE)
PARTIAL = int(lib.FAN_PLACE_PARTIAL)
IN_PLACE = int(lib.FAN_PLACE_IN_PLACE)

pytestmark = needs_ranks


@dataclasses.dataclass
class Ranks:
    """Runs of exchange_peer over one dataset."""

    stage: Stage
    dataset: Path

    def run(self, world_size: int, **spec: Any) -> list[dict[str, Any]]:
        """What each rank says at the end; an empty one where a rank said nothing."""
        results = Path(tempfile.mkdtemp(prefix="results-", dir=self.stage.path))
        spec = {
            "dataset": str(self.dataset), "local": str(self.stage.local),
            "results": str(results), "world_size": world_size, **spec,
        }  # fmt: skip
        written = results / "spec.json"
        written.write_text(json.dumps(spec))
        peer = Path(__file__).resolve().parents[1] / "support" / "exchange_peer.py"
        assert MPIEXEC is not None
        command = [MPIEXEC, *KEEP, "-n", str(world_size)]
        done = subprocess.run(
            [*command, sys.executable, str(peer), str(written)],
            env=self.stage.env, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        found = []
        for rank in range(world_size):
            said = results / f"{rank}.json"
            found.append(json.loads(said.read_text()) if said.exists() else {})
        assert any(found), f"{done.returncode}: {done.stdout}{done.stderr}"
        assert done.returncode == 0 or "die" in spec, f"{done.returncode}: {done.stderr}"
        return found

    def staged_file(self, rank: int, name: str) -> Path:
        """A file in the local directory of a rank."""
        (found,) = (self.stage.local / str(rank)).rglob(name)
        return found

    def sizes(self) -> list[int]:
        """The sizes of the packs."""
        return [(self.dataset / f"pack-{p:05d}.fsp").stat().st_size for p in range(PACKS)]

    def owners(self, world_size: int, replicas: int) -> list[tuple[int, ...]]:
        """The ranks that ought to keep each pack."""
        with open_dataset(self.dataset) as dataset:
            everywhere = tuple(dataset.pack_info(p).everywhere for p in range(PACKS))
        return place(Packs((1,) * PACKS, everywhere), world_size, replicas)


def make_ranks(path: Path, replicate: str | None) -> Ranks:
    stage = make_stage(path)
    files = {f"train/f{n:02}": os.urandom(19000 + 977 * n) for n in range(40)}
    files |= {f"val/f{n:02}": os.urandom(7000 + 977 * n) for n in range(10)}
    source = stage.source(files=files)
    dataset = stage.path / "data"
    options = ["--partitions", str(PACKS)]
    if replicate:  # what it names goes to a further pack
        options = ["--partitions", str(PACKS - 1), "--replicate", replicate]
    inprocess.call("prepare", "--quiet", source, dataset, *options)
    assert len(list(dataset.glob("pack-*.fsp"))) == PACKS
    return Ranks(stage, dataset)


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return make_ranks(tmp_path, None)


def check_whole(ranks: Ranks, found: list[dict[str, Any]], replicas: int) -> None:
    """Every rank has what the placement says, byte by byte, and knows who has the rest."""
    world_size = len(found)
    owners = ranks.owners(world_size, replicas)
    for rank, said in enumerate(found):
        assert "error" not in said, said
        mine = sorted(packs_by_rank(owners, world_size)[rank])
        assert said["files"] == ["index.fsi", *(f"pack-{p:05d}.fsp" for p in mine)]
        assert said["states"] == [STAGED if p in mine else REMOTE for p in range(PACKS)]
        assert [tuple(sorted(o)) for o in owners] == [tuple(s) for s in said["staged_ranks"]]
        assert said["asked"] == [sorted(set(o) - {rank}) for o in owners]
        assert said["report"]["damaged"] == {}


def check_copies(ranks: Ranks, found: list[dict[str, Any]]) -> None:
    """Staged files (kept by the run) are the shared ones, byte by byte."""
    for rank, said in enumerate(found):
        for name in said["files"]:
            copy = ranks.staged_file(rank, name).read_bytes()
            assert copy == (ranks.dataset / name).read_bytes(), (rank, name)


@pytest.mark.parametrize("world_size", sampled([2, 4], [4]))
@pytest.mark.parametrize(
    ("replicas", "replicate"),
    [
        pytest.param("1", None, marks=pytest.mark.soak),
        ("2", "val/**"),
        pytest.param("all", None, marks=pytest.mark.soak),
    ],
)
def test_each_pack_is_read_once_and_copies_are_equal(
    tmp_path: Path, world_size: int, replicas: str, replicate: str | None
) -> None:
    ranks = make_ranks(tmp_path, replicate)
    found = ranks.run(world_size, settings={"replicas": replicas}, keep=True)
    count = world_size if replicas == "all" else int(replicas)
    check_whole(ranks, found, count)
    check_copies(ranks, found)

    opened = [name for said in found for name in said["opened"] if name.startswith("pack")]
    assert sorted(opened) == [f"pack-{p:05d}.fsp" for p in range(PACKS)]
    assert ["index.fsi" in said["opened"] for said in found] == [True] + [False] * (world_size - 1)
    reports = [said["report"] for said in found]
    assert sum(r["shared_bytes"] for r in reports) == sum(ranks.sizes())
    assert [r["copied_packs"] for r in reports] == [PACKS // world_size] * world_size
    kept = sum(len(o) for o in ranks.owners(world_size, count))
    assert sum(r["received_packs"] for r in reports) == kept - PACKS
    if replicate:
        assert {len(o) for o in ranks.owners(world_size, count)} == {count, world_size}
    for said in found:
        assert said["directory"] == said["told"] == str(ranks.dataset)
        assert said["name"] == "data" and said["records"] == found[0]["records"] > 50
        assert str(ranks.stage.local) in said["index_path"]


def test_a_second_run_reads_and_sends_nothing(ranks: Ranks) -> None:
    ranks.run(2, settings={"replicas": "2"}, keep=True)
    found = ranks.run(2, settings={"replicas": "2"}, keep=True)
    check_whole(ranks, found, 2)
    for said in found:
        assert said["report"]["reused_packs"] == PACKS
        assert said["report"]["shared_bytes"] == said["report"]["received_bytes"] == 0
    # Rank 0 looks at the header of the index; nobody opens a pack.
    assert [said["opened"] for said in found] == [["index.fsi"], []]


@pytest.mark.soak
def test_copies_that_one_rank_kept_travel_to_the_others(ranks: Ranks) -> None:
    ranks.run(2, settings={"replicas": "2"}, keep=True)
    shutil.rmtree(ranks.stage.local / "0")
    found = ranks.run(2, settings={"replicas": "2"}, keep=True)
    check_whole(ranks, found, 2)
    check_copies(ranks, found)
    assert found[0]["report"]["received_packs"] == PACKS
    assert found[1]["report"]["reused_packs"] == PACKS
    assert sum(said["report"]["shared_bytes"] for said in found) == 0


@pytest.mark.soak
def test_kept_copies_of_another_world_size_are_used(ranks: Ranks) -> None:
    ranks.run(2, keep=True)
    found = ranks.run(4, keep=True)
    sizes = ranks.sizes()
    assert sum(said["report"]["shared_bytes"] for said in found) == 0
    assert found[2]["report"]["received_bytes"] == sizes[2] + sizes[6]
    assert found[0]["report"]["reused_packs"] == 4
    assert found[0]["staged_ranks"][2] == [0, 2]
    check_copies(ranks, found)


@pytest.mark.soak
def test_two_jobs_on_the_same_nodes_share_their_copies(ranks: Ranks) -> None:
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(ranks.run, 2, settings={"replicas": r}, keep=True) for r in "21"]
        both, single = (job.result() for job in jobs)
    check_copies(ranks, both)
    for said in (*both, *single):
        assert "error" not in said
    shared = sum(said["report"]["shared_bytes"] for said in (*both, *single))
    assert shared <= 2 * sum(ranks.sizes())
    assert list(ranks.stage.local.rglob("*.part")) == []
    again = ranks.run(2, settings={"replicas": "2"})
    assert [said["report"]["reused_packs"] for said in again] == [PACKS, PACKS]


@pytest.mark.soak
def test_ranks_that_share_a_local_directory_share_their_copies(ranks: Ranks) -> None:
    found = ranks.run(2, settings={"replicas": "2"}, one_local=True, keep=True)
    for said in found:
        assert said["states"] == [STAGED] * PACKS
    assert sum(said["report"]["shared_bytes"] for said in found) == sum(ranks.sizes())
    copies = sorted(ranks.stage.local.rglob("pack-*.fsp"))
    assert [copy.name for copy in copies] == [f"pack-{p:05d}.fsp" for p in range(PACKS)]
    assert all(c.read_bytes() == (ranks.dataset / c.name).read_bytes() for c in copies)


@pytest.mark.soak
def test_packs_in_place_are_checked_once_in_all(ranks: Ranks) -> None:
    pack, at = find_content(ranks.dataset, ranks.stage.files["train/f03"])
    flip(pack, at + 10)
    found = ranks.run(4, settings={"in_place": True, "verify": True})
    with open_dataset(ranks.dataset) as dataset:
        record = dataset.lookup(b"train/f03")
    for said in found:
        assert said["states"] == [IN_PLACE] * PACKS
        assert said["report"]["damaged"] == {str(int(pack.name[5:10])): [record]}
    opened = [name for said in found for name in said["opened"] if name.startswith("pack")]
    assert sorted(opened) == [f"pack-{p:05d}.fsp" for p in range(PACKS)]


@pytest.mark.soak
def test_damage_is_found_by_every_replica(ranks: Ranks) -> None:
    pack, at = find_content(ranks.dataset, ranks.stage.files["train/f03"])
    flip(pack, at + 10)
    number = int(pack.name[5:10])
    found = ranks.run(4, settings={"replicas": "all"})
    damaged = [said["report"]["damaged"] for said in found]
    with open_dataset(ranks.dataset) as dataset:
        record = dataset.lookup(b"train/f03")
    assert damaged == [{str(number): [record]}] * 4


@pytest.mark.soak
def test_a_kept_copy_that_decayed_is_not_spread(ranks: Ranks) -> None:
    ranks.run(2, keep=True)
    name = "pack-00003.fsp"
    copy = ranks.staged_file(1, name)
    before = copy.stat()
    flip(copy, 5000)
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = ranks.run(2, settings={"replicas": "2"}, keep=True)
    assert [said["report"]["damaged"] for said in found] == [{}, {}]
    shared = (ranks.dataset / name).read_bytes()
    assert ranks.staged_file(0, name).read_bytes() == shared
    assert found[0]["opened"] == ["index.fsi", name]

    assert ranks.staged_file(1, name).read_bytes() != shared
    found = ranks.run(2, settings={"replicas": "2", "verify": True}, keep=True)
    check_copies(ranks, found)
    assert [said["report"]["received_packs"] for said in found] == [0, 1]


@pytest.mark.soak
def test_a_kept_index_that_decayed_is_not_spread(ranks: Ranks) -> None:
    ranks.run(2, keep=True)
    copy = ranks.staged_file(0, "index.fsi")
    before = copy.stat()
    flip(copy, before.st_size - 20)
    os.utime(copy, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = ranks.run(4, keep=True)
    check_copies(ranks, found)
    assert sum(said["report"]["shared_bytes"] for said in found) == 0


@pytest.mark.soak
def test_too_little_room_on_one_rank_refuses_on_all(ranks: Ranks) -> None:
    short = sum(ranks.sizes()[1::4]) - 1 + (ranks.dataset / "index.fsi").stat().st_size
    full = {"stage": "full"}
    found = ranks.run(4, settings=full, free_bytes={"1": short})
    message = found[0]["error"]
    assert [said["error"] for said in found[1:]] == ["rank 0: " + message] * 3
    assert message.startswith(f"rank 1 on {os.uname().nodename}: {ranks.stage.local}/1: ")
    assert f"{short + 1 - (ranks.dataset / 'index.fsi').stat().st_size:,} bytes" in message
    assert "rank 2" not in message
    assert list(ranks.stage.local.rglob("pack-*.fsp")) == []
    found = ranks.run(4, free_bytes={"1": short + 1})
    check_whole(ranks, found, 1)


@pytest.mark.soak
def test_too_little_room_for_the_index_refuses_on_all(ranks: Ranks) -> None:
    found = ranks.run(2, free_bytes={"0": 10, "1": 20}, settings={"stage": "lazy"})
    first, second = found[0]["error"].splitlines()
    assert first.startswith("rank 0 ") and "(10 bytes) are free" in first
    assert second.startswith("rank 1 ") and "(20 bytes) are free" in second
    assert found[1]["error"] == "rank 0: " + found[0]["error"]


def test_plan_refuses_nothing_and_divides_what_fits(ranks: Ranks) -> None:
    index_bytes = (ranks.dataset / "index.fsi").stat().st_size
    for settings in ({"stage": "plan"}, {"stage": "lazy"}, {}):
        room = {"1": index_bytes + ranks.sizes()[1] * 2}
        found = ranks.run(2, settings=settings, free_bytes=room)
        first, second = found
        assert first["states"] == second["states"] == [PARTIAL] * PACKS
        assert first["asked"] == second["asked"] == [[]] * PACKS
        assert len(first["own"]) > len(second["own"]) > 0
        assert not set(first["own"]) & set(second["own"])
        assert [said["report"]["shared_bytes"] for said in found] == [0, 0]


@pytest.mark.soak
def test_packs_that_ranks_kept_are_not_divided(ranks: Ranks) -> None:
    ranks.run(2, settings={"replicas": "2"}, keep=True)
    shutil.rmtree(ranks.stage.local / "0")
    first, second = ranks.run(2, settings={"stage": "plan"}, keep=True)
    assert (first["states"], first["asked"]) == ([REMOTE] * PACKS, [[1]] * PACKS)
    assert (second["states"], second["asked"]) == ([STAGED] * PACKS, [[]] * PACKS)
    assert first["own"] is second["own"] is None


@pytest.mark.parametrize("world_size", sampled([2, 4], [2]))
def test_a_rank_that_raises_ends_all(ranks: Ranks, world_size: int) -> None:
    found = ranks.run(world_size, settings={"replicas": "2"}, raise_in=1)
    assert found[1]["error"] == "this rank has had enough"
    for rank in set(range(world_size)) - {1}:
        assert found[rank] == {
            "error": "rank 1: this rank has had enough", "type": "RankLost",
        }  # fmt: skip


def test_a_rank_that_is_killed_ends_all(ranks: Ranks) -> None:
    found = ranks.run(4, settings={"replicas": "2"}, die=2, patience_s=2.0)
    assert found[2] == {}
    for rank in (0, 1, 3):
        assert found[rank]["type"] in ("RankLost", "Exception"), found[rank]
        assert "rank 2" in found[rank]["error"]
    assert list((ranks.stage.local / "0").rglob("*.part")) == []


@pytest.mark.parametrize("key", sampled(["full_disk", "full_disk_reading"], ["full_disk"]))
def test_a_full_disk_ends_all_by_name_and_leaves_no_part(ranks: Ranks, key: str) -> None:
    found = ranks.run(2, settings={"replicas": "2"}, keep=True, **{key: 1})
    assert found[1]["error"].startswith(f"rank 1 on {os.uname().nodename}: {ranks.stage.local}/1/")
    assert "No space left on device while staging" in found[1]["error"]
    assert found[0]["error"] == "rank 1: " + found[1]["error"]
    assert list(ranks.stage.local.rglob("*.part")) == []


def test_a_damaged_pack_frame_is_refused_on_all(ranks: Ranks) -> None:
    flip(ranks.dataset / "pack-00001.fsp", 0)
    found = ranks.run(2)
    assert found[1]["type"] == "DatasetDamaged" and "pack-00001.fsp" in found[1]["error"]
    assert found[0]["error"] == "rank 1: " + found[1]["error"]


def test_a_damaged_index_is_refused_on_all(ranks: Ranks) -> None:
    index = ranks.dataset / "index.fsi"
    flip(index, index.stat().st_size - 20)
    found = ranks.run(2)
    assert str(index) in found[0]["error"] and "body_checksum" in found[0]["error"]
    assert found[1]["error"] == "rank 0: " + found[0]["error"]


@pytest.mark.soak
def test_what_staging_costs_a_rank_as_ranks_grow(tmp_path: Path) -> None:
    """The collective calls of a rank stay as many, and MPI makes about log N messages of each. What
    it is told of all grows by some hundred bytes for each rank; without replicas it sends nothing.
    """
    calls, told_each = [], []
    for world_size in (2, 4, 8):
        (tmp_path / str(world_size)).mkdir()
        ranks = make_ranks(tmp_path / str(world_size), None)
        for said in ranks.run(world_size, settings={"replicas": "1"}):
            calls.append(said["calls"])
            told_each.append(said["bytes"]["Iallgatherv"] / world_size)
    assert calls == [{"Ibcast": 3, "Iallgather": 3, "Iallgatherv": 3}] * len(calls)
    assert max(told_each) < 1024 and max(told_each) < 1.2 * min(told_each)
