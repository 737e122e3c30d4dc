"""What a loader of torch will read is brought from the other rank before it is opened."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from mpiexec import needs_ranks
from ranks import make_rank_stage

pytest.importorskip("torch")

COUNT, BATCH = 64, 4

# Reads one epoch in a random order; behind the first batch it waits until the node has done all
# that it wants to.
TRAIN = """
import json, os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset
from fanstore.job.jobs import FoundJob, ask_status
from fanstore.messages.message import encode

def status():
    return encode(ask_status(FoundJob(os.environ["FANSTORE_JOB_DIR"], True)))

class Files(Dataset):
    def __init__(self, root):
        self.samples = [(os.path.join(root, name), 0) for name in sorted(os.listdir(root))]
    def __len__(self):
        return len(self.samples)
    def __getitem__(self, index):
        with open(self.samples[index][0], "rb") as stream:
            return torch.tensor(len(stream.read()) - 30000 == index)

def main():
    good = []
    for number, batch in enumerate(DataLoader(
        Files(os.environ["FANSTORE_MOUNT_PREFIX"]), batch_size=int(sys.argv[1]), shuffle=True
    )):
        good += batch.tolist()
        end = time.monotonic() + 60
        while number == 0 and time.monotonic() < end:
            node = status()["node"]
            if node["ahead"] > 0 and not node["outstanding"]:
                break
            time.sleep(0.02)
    while status()["order"]["predicted"] < len(good) and time.monotonic() < end:
        time.sleep(0.02)
    with open(sys.argv[2] + os.environ["FANSTORE_RANK"], "w") as out:
        json.dump({**status(), "good": good}, out)

main()
"""


@needs_ranks
def test_what_a_loader_will_read_is_there(tmp_path: Path) -> None:
    stage = make_rank_stage(tmp_path, 2)
    files = {f"f{n:03}": bytes([n]) * (30_000 + n) for n in range(COUNT)}
    dataset = stage.dataset(stage.source(files=files))
    out = tmp_path / "said-"
    stage.run_ranks(2, dataset, sys.executable, "-c", TRAIN, str(BATCH), str(out))
    stage.assert_clean()
    for rank in range(2):
        said = json.loads((tmp_path / f"said-{rank}").read_text())
        assert said["good"] == [True] * COUNT
        assert said["order"]["predicted"] == COUNT
        assert said["node"]["ahead"] > COUNT // 4
        assert said["counters"]["cache_misses"] <= 2 * BATCH  # of the first batch


# A dataset without a list of its files. The ranks meet after each epoch, and give their daemons
# time to tell each other what they learnt.
LEARN = """
import os, sys, time
from torch.utils import data

class Named(data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        path = os.path.join(os.environ["FANSTORE_MOUNT_PREFIX"], f"f{index:03}")
        return len(open(path, "rb").read())

rank, size = int(os.environ["FANSTORE_RANK"]), int(os.environ["FANSTORE_WORLD_SIZE"])
sampler = data.DistributedSampler(Named(), size, rank)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for batch in data.DataLoader(Named(), batch_size=4, sampler=sampler):
        time.sleep(0.02)
    open(f"{sys.argv[1]}{epoch}-{rank}", "w").close()
    until = time.monotonic() + 60
    while not all(os.path.exists(f"{sys.argv[1]}{epoch}-{r}") for r in range(size)):
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(2.5)
"""


@needs_ranks
def test_what_one_rank_learns_all_know(tmp_path: Path) -> None:
    stage = make_rank_stage(tmp_path, 4)
    dataset = stage.dataset(stage.source(files={f"f{n:03}": bytes([n]) * 99 for n in range(COUNT)}))
    done = stage.run_ranks(4, dataset, sys.executable, "-c", LEARN, str(tmp_path / "met-"))
    said = done.stderr
    known = float(said.partition("known for ")[2].partition(" %")[0])
    assert known > 40, said  # two of three epochs; each rank alone would know 23 %
