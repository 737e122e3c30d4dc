"""--plan FILE: each node keeps what the plan says, and reads ahead in its order."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inprocess import call
from mpiexec import needs_ranks
from ranks import RankStage, make_rank_stage
from serving import flip, make_stage

from fanstore.dataset import open_dataset
from fanstore.exit_codes import DAMAGED, FAILED
from fanstore.plan.planfile import PlanFile
from fanstore.staging.resident import resident_of

RANKS = 2
COUNT = 48
SIZE_BYTES = 20_000
DISK_FILES = 20
ROOM_BYTES = SIZE_BYTES + COUNT + 4096  # of a file, or more

MACHINE = """
[system]
nodes = %d
ranks_per_node = 1
compute = "2 MB/s"
preprocess = "200 MB/s"
network = "1 GB/s"
shared = { readers = [1], rate = ["3 MB/s"], readers_per_rank = 1 }
staging_buffer = { capacity = "1 MB", threads = 2, write = { threads = [1], rate = ["9 GB/s"] } }

[[system.classes]]
name = "ram"
capacity = "%d B"
threads = 2
read = { threads = [1], rate = ["9 GB/s"] }
write = { threads = [1], rate = ["9 GB/s"] }

[[system.classes]]
name = "disk"
capacity = "%d B"
threads = 2
read = { threads = [1], rate = ["1 GB/s"] }
write = { threads = [1], rate = ["1 GB/s"] }
"""

# Reads all epochs as the plan has them, when all that is to be kept is; says what was wrong, and
# what the daemon knows.
READ = """
import itertools, json, os, sys, time
from fanstore.policy.orders.registry import reads_of_ranks
from fanstore.job.jobs import FoundJob, ask_status
from fanstore.messages.message import encode
def status():
    return encode(ask_status(FoundJob(os.environ["FANSTORE_JOB_DIR"], True)))
root, rank = os.environ["FANSTORE_MOUNT_PREFIX"] + "/train", int(os.environ["FANSTORE_RANK"])
ranks = int(os.environ["FANSTORE_WORLD_SIZE"])
end = time.monotonic() + 60
while time.monotonic() < end and status()["node"]["filling_ahead"]:
    time.sleep(0.02)
names, bad = sorted(os.listdir(root)), []
for reads in itertools.islice(reads_of_ranks("torch-distributed", len(names), ranks, seed=7), 3):
    for name in (names[i] for i in reads[rank]):
        n = int(name[1:])
        if open(f"{root}/{name}", "rb").read() != bytes([n]) * (int(sys.argv[2]) + n):
            bad.append(name)
        time.sleep(0.002)
found = status()
while time.monotonic() < end and found["order"]["predicted"] <= len(names) // ranks:
    if not found["order"]["epochs"] or found["order"]["broken"]:
        break
    time.sleep(0.02)
    found = status()
with open(sys.argv[1] + str(rank), "w") as out:
    json.dump({"bad": bad, **found}, out)
"""


def make_dataset(stage: Any, name: str = "data") -> Path:
    source = stage.path / f"{name}-plain"
    (source / "train").mkdir(parents=True)
    (source / "val").mkdir()
    for n in range(COUNT):
        (source / "train" / f"f{n:02}").write_bytes(bytes([n]) * (SIZE_BYTES + n))
    (source / "val" / "0").write_bytes(name.encode())
    return Path(stage.dataset(source, name))


def make_plan(folder: Path, dataset: Path, nodes: int = RANKS, ram_files: int = 2) -> Path:
    """A plan by which each node keeps DISK_FILES and ram_files more, or nearly as many."""
    (folder / "machine.toml").write_text(
        MACHINE % (nodes, ram_files * ROOM_BYTES, DISK_FILES * ROOM_BYTES)
    )
    machine = ("--machine", folder / "machine.toml", "--under", "train", "--force")
    job = ("--epochs", "3", "--batch", "4", "--order", "torch-distributed", "--seed", "7")
    call("study", "plan", dataset, *machine, *job, "--out", folder / "p.plan", "--quiet")
    return folder / "p.plan"


def said(stage: RankStage, dataset: Path, *options: str) -> list[dict[str, Any]]:
    """What the command says on each rank."""
    command = [sys.executable, "-c", READ, str(stage.path / "said-"), str(SIZE_BYTES)]
    stage.run_ranks(RANKS, dataset, *command, options=options)
    return [json.loads((stage.path / f"said-{rank}").read_text()) for rank in range(RANKS)]


def kept(stage: RankStage, dataset: Path, rank: int) -> set[int]:
    """The samples that a rank has on its disk."""
    with open_dataset(dataset) as opened:
        samples = [opened.lookup(f"train/f{n:02}".encode()) for n in range(COUNT)]
        (staged,) = stage.local_of(rank).glob(f".fanstore-*/datasets/{opened.dataset_id}")
        found = resident_of(str(staged), np.array(samples))
    return set(np.flatnonzero(found).tolist())


@needs_ranks
def test_each_node_keeps_what_the_plan_says(tmp_path: Path) -> None:
    """On its disk; and what it says of memory, as there is room. The order is the plan's."""
    stage = make_rank_stage(tmp_path, RANKS)
    dataset = make_dataset(stage)
    plan = make_plan(tmp_path, dataset)
    ranks = said(stage, dataset, "--plan", str(plan), "--keep-staged")
    with PlanFile(plan) as opened:
        wanted = [set((opened.kept(n) != 255).nonzero()[0].tolist()) for n in range(RANKS)]
    assert wanted[0] != wanted[1]
    for rank, found in enumerate(ranks):
        assert found["bad"] == []
        assert found["order"]["samplers"]["plan"] > COUNT // RANKS  # of more than one epoch
        assert kept(stage, dataset, rank) == wanted[rank]


@needs_ranks
@pytest.mark.soak
def test_memory_gives_way_to_the_disk(tmp_path: Path) -> None:
    """--local-bytes leaves room for what the plan has on the disk alone."""
    stage = make_rank_stage(tmp_path, RANKS)
    dataset = make_dataset(stage)
    plan = make_plan(tmp_path, dataset, ram_files=9)
    room = DISK_FILES * ROOM_BYTES + (64 << 10)  # for the index
    options = ("--plan", str(plan), "--keep-staged", "--local-bytes", str(room))
    ranks = said(stage, dataset, *options)
    with PlanFile(plan) as opened:
        for rank, found in enumerate(ranks):
            row = opened.kept(rank)
            on_disk = set((row == 1).nonzero()[0].tolist())
            assert found["bad"] == []
            assert on_disk <= kept(stage, dataset, rank)
            assert len(kept(stage, dataset, rank)) < int((row != 255).sum())


@needs_ranks
@pytest.mark.soak
def test_an_order_that_is_given_goes_before_the_plans(tmp_path: Path) -> None:
    stage = make_rank_stage(tmp_path, RANKS)
    dataset = make_dataset(stage)
    plan = make_plan(tmp_path, dataset)
    for found in said(stage, dataset, "--plan", str(plan), "--order", "auto"):
        assert found["bad"] == [] and found["order"]["samplers"] == {}


def refused(stage: Any, dataset: Path, *options: str, code: int = FAILED) -> str:
    """What is said by a job that does not begin."""
    done = stage.run(dataset, "true", options=options, code=code)
    assert stage.leftovers() == []
    return str(done.stderr)


@pytest.mark.soak
def test_a_plan_of_another_job_is_refused(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    dataset = make_dataset(stage)
    plan = make_plan(tmp_path, dataset)
    named = ("--plan", str(plan))
    assert f"{plan}: system.nodes is 2; allowed: 1, for the job has 1 node" in refused(
        stage, dataset, *named
    )
    plan = make_plan(tmp_path, dataset, nodes=1)
    other = make_dataset(stage, "other")
    assert f"{plan}: dataset.id is" in refused(stage, other, *named)
    text = refused(stage, dataset, *named, "--local-bytes", str(DISK_FILES * SIZE_BYTES))
    assert "are needed to stage data, --local-bytes leaves" in text
    assert "a plan with smaller storage classes" in text
    flip(plan, plan.stat().st_size - 1)
    assert f"{plan}: kept[1] at offset" in refused(stage, dataset, *named, code=DAMAGED)
    assert f"--plan: there is no file {plan}x" in refused(stage, dataset, "--plan", f"{plan}x")


@pytest.mark.parametrize(
    ("options", "other"),
    [
        (["--in-place"], "--in-place"),
        (["--stage", "full"], "--stage full"),
        (["--replicas", "all"], "--replicas"),
    ],
)
def test_options_that_say_something_else(tmp_path: Path, options: list[str], other: str) -> None:
    stage = make_stage(tmp_path)
    dataset = make_dataset(stage)
    plan = make_plan(tmp_path, dataset, nodes=1)
    text = refused(stage, dataset, "--plan", str(plan), *options)
    assert f"--plan says what each node keeps, and {other} says something else" in text
