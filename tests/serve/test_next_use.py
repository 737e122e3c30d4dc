"""--cache-policy belady: a node that reads other files in each epoch keeps the next one's."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from ranks import make_rank_stage, needs_ranks

COUNT, SIZE, EPOCHS = 600, 60_000, 5

# Reads the files of its rank in their order, and says what the node fetched for that.
READ = """
import json, os, sys, time
from fanstore.serve.jobs import FoundJob, ask
root, rank = os.environ["FANSTORE_MOUNT_PREFIX"], os.environ["FANSTORE_RANK"]
bad = []
with open(sys.argv[1] + rank) as order:
    for name in order.read().split():
        with open(os.path.join(root, name), "rb") as file:
            if file.read() != bytes([int(name[1:]) % 251]) * int(sys.argv[3]):
                bad.append(name)
        time.sleep(0.0005)
node = ask(FoundJob(os.environ["FANSTORE_JOB_DIR"], True), "status")["node"]
with open(sys.argv[2] + rank, "w") as out:
    json.dump({"fetched": node["fetched_bytes"], "bad": bad}, out)
"""


def distributed(place: Path, names: list[str]) -> None:
    """Writes what each of two ranks reads: in each epoch another half of all files."""
    drawn = random.Random(5)
    ranks: list[list[str]] = [[], []]
    for _ in range(EPOCHS):
        drawn.shuffle(names)
        for rank in range(2):
            ranks[rank].append("\n".join(names[rank::2]))
    for rank, epochs in enumerate(ranks):
        (place / f"order-{rank}").write_text("\n\n".join(epochs))


@needs_ranks
def test_less_is_fetched_than_with_what_came_first(tmp_path: Path) -> None:
    stage = make_rank_stage(tmp_path, 2)
    files = {f"f{n:03}": bytes([n % 251]) * SIZE for n in range(COUNT)}
    dataset = stage.dataset(stage.source(files=files))
    distributed(tmp_path, sorted(files))
    fetched = {}
    for policy in ("minio", "belady"):
        out = tmp_path / f"{policy}-"
        options = ["--order", str(tmp_path / "order-{rank}"), "--cache-policy", policy]
        command = [sys.executable, "-c", READ, str(tmp_path / "order-"), str(out), str(SIZE)]
        stage.run_ranks(2, dataset, *command, options=[*options, "--cache-bytes", "10MiB"])
        said = [json.loads(Path(f"{out}{rank}").read_text()) for rank in range(2)]
        assert [each["bad"] for each in said] == [[], []]
        fetched[policy] = sum(each["fetched"] for each in said)
    assert fetched["belady"] < 0.9 * fetched["minio"]
