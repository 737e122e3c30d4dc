"""--replicas auto: what a node has room for beyond its share comes to it while the job runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mpiexec import needs_ranks
from ranks import make_rank_stage
from soak import sampled

COUNT, SIZE = 60, 40_000

# Reads all files again and again, until that brings nothing from elsewhere or the time is over.
READ = """
import json, os, sys, time
from fanstore.job.jobs import FoundJob, ask_status
from fanstore.messages.message import encode
root, rank = os.environ["FANSTORE_MOUNT_PREFIX"], os.environ["FANSTORE_RANK"]

def figures():
    node = encode(ask_status(FoundJob(os.environ["FANSTORE_JOB_DIR"], True)))["node"]
    return {name: node[name] for name in ("fetched_bytes", "shared_bytes", "kept_bytes")}

bad, end = [], time.monotonic() + float(sys.argv[3])
while True:
    before = figures()
    for name in sorted(os.listdir(root)):
        with open(os.path.join(root, name), "rb") as file:
            if file.read() != bytes([int(name[1:]) % 251]) * int(sys.argv[2]):
                bad.append(name)
    time.sleep(float(sys.argv[4]))
    after = figures()
    if after["fetched_bytes"] == before["fetched_bytes"] or time.monotonic() > end:
        break
with open(sys.argv[1] + rank, "w") as out:
    json.dump({"bad": bad, "before": before, "after": after}, out)
"""


def read(
    tmp_path: Path, seconds: int, *options: str, pause_s: float = 0, **env: str
) -> list[dict[str, Any]]:
    """Runs a job of two ranks, which pause after each round; returns what each of them wrote."""
    ranks = make_rank_stage(tmp_path, 2)
    files = {f"f{n:03}": bytes([n % 251]) * SIZE for n in range(COUNT)}
    dataset = ranks.dataset(ranks.source(files=files))
    out = tmp_path / "said-"
    command = [sys.executable, "-c", READ, str(out), str(SIZE), str(seconds), str(pause_s)]
    ranks.run_ranks(2, dataset, *command, options=["--cache-policy", "close", *options], **env)
    return [json.loads(Path(f"{out}{rank}").read_text()) for rank in range(2)]


@needs_ranks
@pytest.mark.parametrize("stage", sampled(["full", "plan"], ["plan"]))
def test_a_node_with_room_for_all_reads_nothing_from_others(tmp_path: Path, stage: str) -> None:
    for said in read(tmp_path, 60, "--stage", stage, "--replicas", "auto"):
        assert not said["bad"] and said["after"] == said["before"]
        assert said["after"]["kept_bytes"] > 0


@needs_ranks
@pytest.mark.soak
def test_with_one_replica_nothing_is_copied(tmp_path: Path) -> None:
    for said in read(tmp_path, 0, "--replicas", "1"):
        assert not said["bad"] and said["after"]["kept_bytes"] == 0
        assert said["after"]["fetched_bytes"] > said["before"]["fetched_bytes"]


@needs_ranks
def test_what_a_neighbour_has_is_not_copied(tmp_path: Path) -> None:
    """The pause gives a daemon time to do it."""
    options = ("--stage", "full", "--replicas", "auto")
    for said in read(tmp_path, 60, *options, pause_s=1, FANSTORE_NEIGHBOURS="on"):
        assert not said["bad"]
        assert said["after"]["kept_bytes"] == said["after"]["fetched_bytes"] == 0
