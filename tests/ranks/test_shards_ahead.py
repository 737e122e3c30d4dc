"""Shards that are read one after the other come before they are read; random readers get no more
than before."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from mpiexec import needs_ranks
from ranks import make_rank_stage

pytestmark = needs_ranks

MIB = 1 << 20
SHARDS, SHARD_BYTES, EPOCHS = 6, 12 * MIB, 3

# Reads shards in the order of a file as fast as the daemon brings them, or 8 KiB in the middle of
# each; says which bytes differ from the plain directory's and how the daemon's counts grew.
READ = """
import json, os, sys, time
from pathlib import Path
from fanstore.job.jobs import FoundJob, ask_status
from fanstore.messages.message import encode
order, source, out, how = sys.argv[1:]
root = Path(os.environ["FANSTORE_MOUNT_PREFIX"])
def node():
    return encode(ask_status(FoundJob(os.environ["FANSTORE_JOB_DIR"], True)))["node"]
def settled():
    end = time.monotonic() + 20
    then, now = None, node()
    while time.monotonic() < end and (then != now["fetches"] or now["outstanding"]):
        time.sleep(0.2)
        then, now = now["fetches"], node()
    return now
def read(path):
    with open(path, "rb", buffering=0) as file:
        if how == "pieces":
            return [os.pread(file.fileno(), 8192, 5 << 20)]
        return list(iter(lambda: file.read(1 << 16), b""))
bad = []
for epoch in Path(order).read_text().split("\\n\\n"):
    for name in epoch.split():
        bad += [name] if read(root / name) != read(Path(source) / name) else []
        last = settled()
Path(out + os.environ["FANSTORE_RANK"]).write_text(json.dumps({"bad": bad, "node": last}))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source")
    for number in range(SHARDS):
        (path / f"s{number}").write_bytes(random.Random(number).randbytes(SHARD_BYTES))
    return path


def said_of(place: Path, source: Path, how: str) -> list[dict[str, Any]]:
    stage = make_rank_stage(place, 2)
    dataset = place / "dataset"
    stage.call("prepare", "--quiet", str(source), str(dataset), "--partitions", "2")
    chance, names = random.Random(7), [f"s{number}" for number in range(SHARDS)]
    epochs = [chance.sample(names, SHARDS) for _ in range(EPOCHS)]
    order, out = place / "order", place / "said-"
    order.write_text("\n\n".join("\n".join(epoch) for epoch in epochs))
    command = [sys.executable, "-c", READ, str(order), str(source), str(out), how]
    options = ["--order", str(order), "--cache-bytes", "256MiB"]
    stage.run_ranks(2, dataset, *command, options=options)
    stage.assert_clean()
    return [json.loads((place / f"said-{rank}").read_text()) for rank in range(2)]


def test_shards_in_sequence_are_foreseen(tmp_path: Path, source: Path) -> None:
    remote = SHARDS // 2 * SHARD_BYTES
    for rank in said_of(tmp_path, source, "sequence"):
        node = rank["node"]
        assert rank["bad"] == []
        assert remote <= node["fetched_bytes"] <= 1.05 * remote
        # The first shard shows how they are read; all others are there before they are read.
        assert node["ahead_bytes"] >= remote - SHARD_BYTES
        assert node["fetches"] - node["ahead"] + node["ahead_late"] <= SHARD_BYTES // MIB


def test_random_readers_get_pieces(tmp_path: Path, source: Path) -> None:
    for rank in said_of(tmp_path, source, "pieces"):
        assert rank["bad"] == []
        assert rank["node"]["ahead"] == 0
        assert 0 < rank["node"]["fetched_bytes"] <= SHARDS // 2 * EPOCHS * 128 * 1024
