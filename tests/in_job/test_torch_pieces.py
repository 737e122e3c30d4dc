"""Samples that lie in large files: their pieces are brought from the other rank before they are
read, by pread(2) or through mappings."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from mpiexec import needs_ranks
from ranks import make_rank_stage

pytest.importorskip("torch")

ROW, FILES, FILE_BYTES = 40_000, 2, 20 << 20

# Reads rows of two files in a random order; says how the daemon's counts grew in each epoch, and
# which bytes differ from the plain directory's.
TRAIN = """
import json, mmap, os, sys, time
import torch
from torch.utils.data import DataLoader, Dataset
from fanstore.job.jobs import FoundJob, ask_status
from fanstore.messages.message import encode
source, out, how, row = *sys.argv[1:4], int(sys.argv[4])

class Rows(Dataset):
    def __init__(self, root):
        self.root, self.files = root, None
        self.rows = os.path.getsize(root + "/t0") // row
    def __len__(self):
        return 2 * self.rows
    def __getitem__(self, index):
        if self.files is None:
            self.files = [os.open(f"{self.root}/t{n}", os.O_RDONLY) for n in range(2)]
            if how == "map":
                self.files = [mmap.mmap(fd, 0, prot=mmap.PROT_READ) for fd in self.files]
        number, at = divmod(index, self.rows)
        time.sleep(0.002)  # slow enough to be followed
        file, at = self.files[number], at * row
        read = file[at:at + row] if how == "map" else os.pread(file, row, at)
        return torch.tensor(read == plain[number][at:at + row]), torch.tensor(len(read))

def settled():
    end = time.monotonic() + 20
    while time.monotonic() < end:
        time.sleep(0.2)
        said = encode(ask_status(FoundJob(os.environ["FANSTORE_JOB_DIR"], True)))
        if not said["node"]["outstanding"]:
            return said
    return said

plain = [open(f"{source}/t{n}", "rb").read() for n in range(2)]
torch.manual_seed(int(os.environ["FANSTORE_RANK"]))
loader = DataLoader(Rows(os.environ["FANSTORE_MOUNT_PREFIX"]), batch_size=4, shuffle=True)
epochs, bad = [], 0
for epoch in range(3):
    bad += sum(int((~same).sum() + (size != row).sum()) for same, size in loader)
    epochs.append(settled())
with open(out + os.environ["FANSTORE_RANK"], "w") as file:
    json.dump({"bad": bad, "epochs": epochs}, file)
"""


def train(place: Path, how: str) -> list[dict[str, Any]]:
    """What each of two ranks says, each of which has one of the files."""
    source = place / "source"
    source.mkdir()
    for number in range(FILES):
        (source / f"t{number}").write_bytes(random.Random(number).randbytes(FILE_BYTES))
    stage = make_rank_stage(place, 2)
    stage.call("prepare", "--quiet", str(source), str(place / "data"), "--partitions", "2")
    command = [sys.executable, "-c", TRAIN, str(source), str(place / "said-"), how, str(ROW)]
    options = ["--cache-bytes", "10MiB", "--output-dir", str(place / "out")]
    stage.run_ranks(2, place / "data", *command, options=options)
    stage.assert_clean()
    return [json.loads((place / f"said-{rank}").read_text()) for rank in range(2)]


def grown(said: dict[str, Any], epoch: int, part: str, name: str) -> int:
    before, after = (said["epochs"][at][part][name] for at in (epoch - 1, epoch))
    return int(after - before)


@needs_ranks
def test_pieces_are_there_before_they_are_read(tmp_path: Path) -> None:
    for said in train(tmp_path, "pread"):
        assert said["bad"] == 0
        assert said["epochs"][0]["order"]["pieces"] > FILES * (FILE_BYTES // ROW)
        hits, misses = (grown(said, 2, "counters", f"cache_{name}") for name in ("hits", "misses"))
        assert misses < hits / 4  # a few where the machine is busy; without foresight most
        assert grown(said, 2, "node", "ahead_bytes") > FILE_BYTES // 4
        assert grown(said, 2, "order", "predicted") > FILES * (FILE_BYTES // ROW) // 2


@needs_ranks
def test_mapped_pieces_are_learnt(tmp_path: Path) -> None:
    """The map server reads them for the sample of the program that touches the mapping. (In later
    epochs the kernel has the pages.)"""
    for said in train(tmp_path, "map"):
        assert said["bad"] == 0
        order = said["epochs"][0]["order"]
        assert order["pieces"] > 100, order
        assert grown(said, 2, "node", "fetched_bytes") < FILE_BYTES // 2
