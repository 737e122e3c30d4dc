"""--cache-policy belady: a node keeps what is read again soonest, the ranks together what is on no
disk."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from mpiexec import needs_ranks
from ranks import make_rank_stage
from soak import sampled

COUNT, SIZE, EPOCHS = 600, 60_000, 5

# Reads the files of its rank in their order, and says what the node fetched for that.
READ = """
import json, os, sys, time
from fanstore.job.jobs import FoundJob, ask_status
from fanstore.messages.message import encode
root, rank = os.environ["FANSTORE_MOUNT_PREFIX"], os.environ["FANSTORE_RANK"]
bad = []
with open(sys.argv[1] + rank) as order:
    for name in order.read().split():
        with open(os.path.join(root, name), "rb") as file:
            if file.read() != bytes([int(name[1:]) % 251]) * int(sys.argv[3]):
                bad.append(name)
        time.sleep(0.0005)
node = encode(ask_status(FoundJob(os.environ["FANSTORE_JOB_DIR"], True)))["node"]
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


@pytest.mark.soak
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
    assert fetched["belady"] < 0.95 * fetched["minio"]


# Reads all files several times; says what the node read of the shared file system.
READ_ALL = """
import json, os, sys
from fanstore.job.jobs import FoundJob, ask_status
from fanstore.messages.message import encode
root, rank = os.environ["FANSTORE_MOUNT_PREFIX"], os.environ.get("FANSTORE_RANK", "0")
bad = []
for name in sorted(os.listdir(root), reverse=rank == "1") * 3:
    with open(os.path.join(root, name), "rb") as file:
        if file.read() != bytes([int(name[1:]) % 251]) * int(sys.argv[2]):
            bad.append(name)
with open(sys.argv[1] + rank, "w") as out:
    node = encode(ask_status(FoundJob(os.environ["FANSTORE_JOB_DIR"], True)))["node"]
    json.dump({"shared": node["shared_bytes"], "bad": bad}, out)
"""


@needs_ranks
@pytest.mark.parametrize("policy", sampled(["belady", "minio"], ["belady"]))
@pytest.mark.parametrize("disk_files", sampled([0, 100], [0]))
def test_what_is_on_no_disk_is_read_once_in_all(
    tmp_path: Path, policy: str, disk_files: int
) -> None:
    """The two disks have room for no file or a third of all, and each cache for half of the rest:
    `--cache-bytes` counts content."""
    stage = make_rank_stage(tmp_path, 2)
    files = {f"f{n:03}": bytes([n % 251]) * SIZE for n in range(COUNT)}
    dataset = stage.dataset(stage.source(files=files))
    room = {"local": disk_files * (SIZE + 4096), "cache": (COUNT // 2 + 1 - disk_files) * SIZE}
    options = ["--stage", "plan", "--cache-policy", policy]
    options += [word for name, size in room.items() for word in (f"--{name}-bytes", str(size))]
    out = tmp_path / "said-"
    command = [sys.executable, "-c", READ_ALL, str(out), str(SIZE)]
    done = stage.run_ranks(2, dataset, *command, options=options)
    said = [json.loads(Path(f"{out}{rank}").read_text()) for rank in range(2)]
    assert [each["bad"] for each in said] == [[], []]
    # A rank that waits too long for another one on a busy machine reads the file itself.
    assert sum(each["shared"] for each in said) <= COUNT * SIZE * 1.05
    assert "in the block caches" in done.stderr


def test_a_cache_keeps_as_much_content_as_its_size_says(tmp_path: Path) -> None:
    stage = make_rank_stage(tmp_path, 1)
    files = {f"f{n:03}": bytes([n % 251]) * SIZE for n in range(COUNT)}
    dataset = stage.dataset(stage.source(files=files))
    options = ["--stage", "plan", "--local-bytes", "0", "--order", "off", "--cache-policy", "minio"]
    command = (
        "run",
        *stage.where(dataset),
        *options,
        "--cache-bytes",
        str(COUNT * SIZE * 35 // 100),
    )
    stage.call(*command, "--", sys.executable, "-c", READ_ALL, str(tmp_path / "said-"), str(SIZE))
    said = json.loads((tmp_path / "said-0").read_text())
    missed = (said["shared"] / (COUNT * SIZE) - 1) / 2  # in the second and the third epoch
    assert not said["bad"] and abs(missed - 0.65) <= 0.005
