"""What no local disk has: the node daemon reads it from the shared file system, once a node."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fault_tools import command_of
from serving import LIMIT_S, Stage, daemon_of, make_stage, wait_for

COUNT = 8
FILE_BYTES = 1_500_000
DATASET_BYTES = COUNT * FILE_BYTES
LOCAL_BYTES = 2 * FILE_BYTES + 500_000

# Four processes, each of which reads all files in an order of its own, by read and mmap in turns.
CROWD = """
import hashlib, mmap, os, random, sys
root, names = sys.argv[1], sorted(os.listdir(sys.argv[1]))
def read(name, mapped):
    with open(os.path.join(root, name), "rb") as stream:
        if mapped:
            with mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as data:
                return hashlib.sha256(data).hexdigest()
        return hashlib.sha256(stream.read()).hexdigest()
children = []
for seed in range(4):
    out, into = os.pipe()
    if os.fork() == 0:
        order = random.Random(seed).sample(names, len(names))
        found = {name: read(name, mapped=bool((seed + i) % 2)) for i, name in enumerate(order)}
        os.write(into, repr(sorted(found.items())).encode())
        os._exit(0)
    os.close(into)
    children.append(out)
print({os.fdopen(out).read() for out in children})
for _ in children:
    assert os.wait()[1] == 0
"""

# Reads every file once, in the order of an epoch.
SHUFFLED = """
import os, random, sys
names = sorted(os.listdir(sys.argv[1]))
for name in random.Random(sys.argv[2]).sample(names, len(names)):
    with open(os.path.join(sys.argv[1], name), "rb") as stream:
        assert len(stream.read()) == 1 << 20
"""

# Reads every file each time a line comes; says the size of each, or its errno.
STEPS = """
import os, sys
root = os.environ["FANSTORE_MOUNT_PREFIX"]
def read(name):
    try:
        with open(os.path.join(root, name), "rb") as stream:
            return len(stream.read())
    except OSError as error:
        return -error.errno
names = sorted(os.listdir(root))
for line in sys.stdin:
    print([read(name) for name in names], flush=True)
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path)
    stage.source(files={f"f{n}": os.urandom(FILE_BYTES) for n in range(COUNT)})
    return stage


@pytest.fixture
def dataset(stage: Stage) -> Path:
    return stage.dataset(stage.path / "plain", "data", "--partitions", str(COUNT))


def crowd(root: Path) -> list[str]:
    return [sys.executable, "-c", CROWD, str(root)]


def plain_digests(stage: Stage) -> str:
    done = subprocess.run(crowd(stage.path / "plain"), capture_output=True, text=True, check=True)
    return done.stdout


def options() -> tuple[str, ...]:
    """Two files may lie on the local disk."""
    cache = ("--cache-bytes", "64M", "--cache-policy", "lru")
    return ("--stage", "plan", "--local-bytes", str(LOCAL_BYTES), *cache)


def wait_until_kept(stage: Stage, kept_bytes: int) -> None:
    """Until so much is on the local disk, of which no more may be."""

    def there() -> bool:
        sparse = stage.local.rglob("*.sparse")
        return sum(path.stat().st_blocks * 512 for path in sparse) >= kept_bytes

    wait_for(there, "what may lie here")


def test_each_byte_is_read_once_a_node(stage: Stage, dataset: Path) -> None:
    where = ["--dataset", str(dataset), "--mount", str(stage.mount)]
    stage.call("start", *where, *options())
    try:
        for _ in range(2):
            assert stage.call("exec", "--", *crowd(stage.mount)).stdout == plain_digests(stage)
        status = stage.status()
    finally:
        stage.call("stop")
    assert status["counters"]["shared_reads"] == 0  # by commands themselves
    assert 0 < status["node"]["shared_bytes"] <= DATASET_BYTES
    assert status["node"]["failures"] == 0


def test_an_epoch_reads_what_is_not_resident(stage: Stage) -> None:
    """CoorDL's MinIO: what the disk and the cache hold is never read again, nor is it displaced."""
    mib = 1 << 20
    stage.source("many", files={f"f{n:02}": os.urandom(mib) for n in range(40)})
    dataset = stage.dataset(stage.path / "many", "many.fs", "--partitions", "40")
    where = ["--dataset", str(dataset), "--mount", str(stage.mount), "--stage", "plan"]
    cache = ["--cache-bytes", "16M", "--cache-policy", "minio"]
    stage.call("start", *where, "--local-bytes", str(10 * mib + 500_000), *cache)
    read = []
    try:
        wait_until_kept(stage, 10 * mib)
        for epoch in range(4):
            stage.call("exec", "--", sys.executable, "-c", SHUFFLED, str(stage.mount), str(epoch))
            status = stage.status()
            read.append(status["node"]["shared_bytes"] - sum(read))
    finally:
        stage.call("stop")
    assert read[0] == 40 * mib  # ten of them ahead
    assert max(read[1:]) - min(read[1:]) <= 2 * mib and max(read[1:]) < 25 * mib


def test_staging_all_says_how_much_may_lie_here(stage: Stage, dataset: Path) -> None:
    full = ("--stage", "full", "--local-bytes", "4M")
    refused = stage.run(dataset, "true", options=full, code=125)
    assert "are needed to stage data" in refused.stderr
    assert "--local-bytes leaves 4.0 MiB" in refused.stderr and "--stage plan" in refused.stderr


def test_the_summary_says_what_was_read(stage: Stage, dataset: Path) -> None:
    done = stage.run(dataset, *crowd(stage.mount), options=options())
    assert done.stdout == plain_digests(stage)
    (line,) = [line for line in done.stderr.splitlines() if " read later from the shared" in line]
    assert "other ranks" not in line and " 0 bytes" not in line


def answers(run: subprocess.Popen[str]) -> Any:
    assert run.stdin is not None and run.stdout is not None
    run.stdin.write("again\n")
    run.stdin.flush()
    return json.loads(run.stdout.readline())


def stepping(stage: Stage, dataset: Path) -> subprocess.Popen[str]:
    where = ["--dataset", str(dataset), "--mount", str(stage.mount), *options()]
    return subprocess.Popen(
        [sys.executable, "-m", "fanstore", "run", *where, "--", sys.executable, "-c", STEPS],
        env=stage.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def end(run: subprocess.Popen[str]) -> str:
    _, stderr = run.communicate(timeout=LIMIT_S)
    return stderr


def test_a_shared_file_system_that_vanishes_is_eio_until_it_returns(
    stage: Stage, dataset: Path
) -> None:
    gone = dataset.with_name("gone")
    with stepping(stage, dataset) as run:
        wait_for(lambda: command_of(run.pid), "the command")
        dataset.rename(gone)
        found = answers(run)
        gone.rename(dataset)
        assert -errno.EIO in found and {FILE_BYTES, -errno.EIO} >= set(found)
        assert answers(run) == [FILE_BYTES] * COUNT
        end(run)
    assert run.returncode == 0


def test_a_pack_that_was_cut_off_is_eio_until_it_is_whole(stage: Stage, dataset: Path) -> None:
    with stepping(stage, dataset) as run:
        wait_until_kept(stage, 2 * FILE_BYTES)
        packs = {path: path.read_bytes()[-1:] for path in dataset.glob("pack-*.fsp")}
        for path in packs:
            os.truncate(path, path.stat().st_size - 1)
        found = answers(run)
        assert sorted(found) == [-errno.EIO] * (COUNT - 2) + [FILE_BYTES] * 2
        for path, last in packs.items():
            with path.open("ab") as stream:
                stream.write(last)
        assert answers(run) == [FILE_BYTES] * COUNT
        end(run)
    assert run.returncode == 0


def test_commands_read_themselves_when_the_daemon_is_gone(stage: Stage, dataset: Path) -> None:
    with stepping(stage, dataset) as run:
        assert answers(run) == [FILE_BYTES] * COUNT
        os.kill(daemon_of(run.pid), signal.SIGKILL)
        assert answers(run) == [FILE_BYTES] * COUNT
        stderr = end(run)
    assert run.returncode == 125
    assert "the node daemon died" in stderr
