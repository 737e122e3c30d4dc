"""Datasets that no local disk holds: each node keeps its share, and every byte is right."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fault_tools import command_of
from serving import Stage, daemon_of, find_content, flip, make_stage, wait_for
from small_disk import small_disk
from soak import sampled

from fanstore.messages.channel import connect
from fanstore.messages.message import from_line
from fanstore.messages.requests import AskStatus

MIB = 1 << 20
LONG_BYTES = 9 * MIB  # longer than what is kept when a part of it is read
SIZES = [*(100_000 + n for n in range(20)), *(1_300_000 + n for n in range(4)), LONG_BYTES, 10]

# What a program makes of each file, by each way of reading in turn: a digest, or an errno.
DIGESTS = """
import hashlib, json, mmap, os, sys
root, rounds = sys.argv[1], int(sys.argv[2])
def read(path, how):
    with open(path, "rb") as stream:
        if how == 0:
            return hashlib.sha256(stream.read()).hexdigest()
        if how == 1:
            with mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as data:
                return hashlib.sha256(data).hexdigest()
        out = os.memfd_create("copy")
        while os.sendfile(out, stream.fileno(), os.lseek(out, 0, os.SEEK_END), 1 << 20):
            pass
        return hashlib.sha256(os.pread(out, os.fstat(out).st_size, 0)).hexdigest()
def tried(path, how):
    try:
        return read(path, how)
    except OSError as error:
        return -error.errno
names = sorted(os.listdir(root))
for n in range(rounds):
    found = {name: tried(os.path.join(root, name), (i + n) % 3) for i, name in enumerate(names)}
    print(json.dumps(found), flush=True)
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path)
    stage.source(files={f"f{n:02}": os.urandom(size) for n, size in enumerate(SIZES)})
    return stage


@pytest.fixture
def dataset(stage: Stage) -> Path:
    return stage.dataset(stage.path / "plain", "data", "--partitions", "3")


def expected(stage: Stage) -> dict[str, Any]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in stage.files.items()}


@contextlib.contextmanager
def serving(stage: Stage, dataset: Path, *options: str, mount: str = "mount") -> Iterator[Path]:
    """The mount of a job; its cache is small."""
    where = ["--dataset", str(dataset), "--mount", str(stage.path / mount)]
    stage.call("start", *where, "--cache-bytes", "12M", *options)
    try:
        yield stage.path / mount
    finally:
        stage.call("stop", "--job", job_of(stage, mount).name)


def job_of(stage: Stage, mount: str) -> Path:
    """The directory of the job that serves a mount."""
    for described in stage.local.glob(".fanstore-*/jobs/*/job.json"):
        about = json.loads(described.read_text())
        if about["datasets"][0]["mount_prefix"] == str(stage.path / mount):
            return described.parent
    raise AssertionError("no such job")


def status(stage: Stage, mount: str = "mount") -> dict[str, Any]:
    """What `fanstore status` gets."""
    channel = connect(str(job_of(stage, mount)))
    channel.send(AskStatus())
    line = channel.receive_line()
    channel.close()
    assert line is not None
    return from_line(line)


def read(stage: Stage, mount: Path, rounds: int = 1) -> list[dict[str, Any]]:
    """What a program in the job reads of all files, round by round."""
    argv = [sys.executable, "-c", DIGESTS, str(mount), str(rounds)]
    said = stage.call("exec", "--job", job_of(stage, mount.name).name, "--", *argv).stdout
    return [json.loads(line) for line in said.splitlines()]


def shared_bytes(stage: Stage) -> int:
    found = status(stage)
    assert found["counters"]["shared_reads"] == 0  # by commands themselves
    return int(found["node"]["shared_bytes"])


def until_filled(stage: Stage, mount: str = "mount") -> dict[str, Any]:
    wait_for(lambda: status(stage, mount)["node"]["filling_ahead"] == 0, "the share to be filled")
    return dict(status(stage, mount)["node"])


def sparse_packs(stage: Stage) -> list[Path]:
    return sorted(stage.local.rglob("*.sparse"))


def disk_bytes(stage: Stage) -> int:
    return sum(path.stat().st_blocks * 512 for path in sparse_packs(stage))


def zeros(files: dict[str, Any], stage: Stage) -> list[str]:
    """Files of which nothing but zeros was read."""
    return [
        name for name, found in files.items()
        if found == hashlib.sha256(bytes(len(stage.files[name]))).hexdigest()
    ]  # fmt: skip


@pytest.mark.parametrize("codec", sampled(["store", "lz4", "zstd"], ["zstd"]))
def test_what_was_filled_needs_no_shared_file_system(stage: Stage, codec: str) -> None:
    source = stage.path / "plain"
    dataset = stage.dataset(source, "data", "--partitions", "3", "--codec", codec)
    gone = dataset.with_name("gone")
    with serving(stage, dataset, "--stage", "plan") as mount:
        assert read(stage, mount) == [expected(stage)]
        until_filled(stage)
        dataset.rename(gone)
        assert read(stage, mount, 3) == [expected(stage)] * 3
        gone.rename(dataset)
    assert stage.leftovers() == []


def test_an_epoch_reads_what_is_not_resident(stage: Stage, dataset: Path) -> None:
    """CoorDL: what a disk keeps is read once; a job whose cache holds nothing reads the rest each
    time."""
    allowed = 6 * MIB
    options = ("--stage", "plan", "--local-bytes", str(allowed), "--cache-policy", "close")
    with serving(stage, dataset, *options) as mount:
        node = until_filled(stage)
        kept = node["kept_bytes"]
        assert disk_bytes(stage) <= allowed and kept > allowed - 2 * MIB
        before, rest = shared_bytes(stage), sum(SIZES) - kept
        for epoch in range(1, 4):
            assert read(stage, mount) == [expected(stage)]
            assert shared_bytes(stage) - before == rest * epoch


def test_lazy_keeps_what_was_read(stage: Stage, dataset: Path) -> None:
    with serving(stage, dataset, "--stage", "lazy") as mount:
        assert status(stage)["node"]["kept_bytes"] == disk_bytes(stage) == 0
        for _ in range(2):
            assert read(stage, mount) == [expected(stage)]
            node = status(stage)["node"]
            # Each once; but of a long file whoever reads wants a part.
            assert node["kept_bytes"] == sum(SIZES) - LONG_BYTES
            assert node["kept_records"] == len(SIZES) - 1
        # A thread that waits too long for another's reading of the same file reads its own block.
        # Of the long file the cache may have a part.
        assert 0 <= shared_bytes(stage) - sum(SIZES) <= LONG_BYTES + 4 * 400_000


@pytest.mark.parametrize("option", ["auto", "full"])
@pytest.mark.soak
def test_a_dataset_that_does_not_fit(stage: Stage, dataset: Path, option: str) -> None:
    """By default each node keeps what fits, and says how much that is; `full` refuses."""
    argv = (sys.executable, "-c", DIGESTS, str(stage.mount), "2")
    options = ("--stage", option, "--local-bytes", "6M")
    if option == "full":
        refused = stage.run(dataset, *argv, options=options, code=125)
        assert "--local-bytes leaves 6.0 MiB" in refused.stderr and "--stage plan" in refused.stderr
        return
    done = stage.run(dataset, *argv, options=options)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [expected(stage)] * 2
    (line,) = [line for line in done.stderr.splitlines() if "have room on the local disks" in line]
    assert "data: 5." in line and " of 15." in line  # MiB


def test_all_is_staged_first_where_all_fits(stage: Stage, dataset: Path) -> None:
    with serving(stage, dataset) as mount:
        assert status(stage)["datasets"][0]["copied_packs"] == 3
        assert read(stage, mount) == [expected(stage)]
        assert sparse_packs(stage) == []


def test_what_was_kept_serves_the_next_job(stage: Stage, dataset: Path) -> None:
    with serving(stage, dataset, "--stage", "plan", "--keep-staged"):
        assert until_filled(stage)["kept_records"] == len(SIZES)
    with serving(stage, dataset, "--stage", "plan", "--keep-staged") as mount:
        assert read(stage, mount) == [expected(stage)]
        assert until_filled(stage)["kept_records"] == shared_bytes(stage) == 0


@pytest.mark.soak
def test_a_job_with_less_room_keeps_no_more_than_it_may(stage: Stage, dataset: Path) -> None:
    """What another left counts; what is there is used."""
    for allowed in (8 * MIB, 6 * MIB, 8 * MIB):
        where = ("--stage", "plan", "--keep-staged", "--local-bytes", str(allowed))
        with serving(stage, dataset, *where) as mount:
            until_filled(stage)
            assert read(stage, mount) == [expected(stage)]
            assert disk_bytes(stage) <= 8 * MIB


def test_a_killed_daemon_leaves_what_is_right(stage: Stage, dataset: Path) -> None:
    """Killed while it fills, again and again."""
    where = ["--dataset", str(dataset), "--mount", str(stage.mount), "--stage", "plan"]
    for pause_s in (0, 0.05, 0.2):
        command = ("run", *where, "--keep-staged", "--", "sleep", "30")
        with stage.running(*command) as run:
            wait_for(lambda run=run: command_of(run.pid), "the command")
            time.sleep(pause_s)
            os.kill(daemon_of(run.pid), signal.SIGKILL)
            os.kill(command_of(run.pid), signal.SIGTERM)
            run.communicate(timeout=60)
        assert run.returncode in (125, 143)  # the one or the other is seen first
    with serving(stage, dataset, "--stage", "plan") as mount:
        assert read(stage, mount, 2) == [expected(stage)] * 2


def make_holes(stage: Stage) -> None:
    """As after a crash: the sizes of partial packs reached the disk, their bytes did not."""
    for pack in sparse_packs(stage):
        size = pack.stat().st_size
        os.truncate(pack, 0)
        os.truncate(pack, size)


def test_what_never_reached_the_disk_is_not_read(stage: Stage, dataset: Path) -> None:
    where = ["--dataset", str(dataset), "--mount", str(stage.mount), "--stage", "plan"]
    with stage.running("run", *where, "--keep-staged", "--", "sleep", "60") as run:
        wait_for(lambda: command_of(run.pid), "the command")
        until_filled(stage)
        os.kill(daemon_of(run.pid), signal.SIGKILL)
        os.kill(command_of(run.pid), signal.SIGTERM)
        run.communicate(timeout=60)
    make_holes(stage)
    with serving(stage, dataset, "--stage", "plan") as mount:
        assert read(stage, mount, 2) == [expected(stage)] * 2


@pytest.mark.parametrize(
    "how", sampled(["cut", "removed", "replaced", "no bitmap", "bitmap cut"], ["no bitmap"])
)
def test_partial_packs_that_somebody_spoils(stage: Stage, dataset: Path, how: str) -> None:
    """Between two jobs. A new job reads what is right, wherever that is."""
    with serving(stage, dataset, "--stage", "plan", "--keep-staged"):
        until_filled(stage)
    (resident,) = stage.local.rglob("resident")
    for pack in sparse_packs(stage):
        size = pack.stat().st_size
        if how in ("removed", "replaced"):
            pack.rename(pack.with_name("away"))
        if how == "cut":
            os.truncate(pack, size // 2)
        if how == "replaced":
            pack.touch()
            os.truncate(pack, size)
    if how == "no bitmap":
        resident.unlink()
    if how == "bitmap cut":
        os.truncate(resident, 130)
    with serving(stage, dataset, "--stage", "plan") as mount:
        assert read(stage, mount, 2) == [expected(stage)] * 2


@pytest.mark.soak
def test_a_partial_pack_that_is_cut_off_under_a_job(stage: Stage, dataset: Path) -> None:
    """Right bytes or an error, never a hole's zeros."""
    with serving(stage, dataset, "--stage", "plan") as mount:
        until_filled(stage)
        for pack in sparse_packs(stage):
            os.truncate(pack, 4096)
        (found,) = read(stage, mount)
    right = expected(stage)
    assert all(found[name] in (right[name], -errno.EIO) for name in right)
    assert zeros(found, stage) == []


def test_a_disk_that_fills_up_ends_admission_alone(stage: Stage, dataset: Path) -> None:
    with small_disk(stage.local, "8m"), serving(stage, dataset, "--stage", "plan") as mount:
        full = stage.local / "full"
        with contextlib.suppress(OSError), full.open("wb", buffering=0) as stream:
            while True:
                stream.write(bytes(65536))
        assert read(stage, mount, 2) == [expected(stage)] * 2
        full.unlink()
        assert read(stage, mount) == [expected(stage)]


@pytest.mark.parametrize("name", sampled(["f03", "f21", "f24"], ["f21"]))
@pytest.mark.parametrize("mode", sampled(["plan", "lazy"], ["plan"]))
def test_what_is_damaged_is_never_read(stage: Stage, dataset: Path, mode: str, name: str) -> None:
    """A short file, one of two blocks, and a long one."""
    flip(*find_content(dataset, stage.files[name][:4096]))
    with serving(stage, dataset, "--stage", mode) as mount:
        if mode == "plan":
            assert until_filled(stage)["damaged_records"] == 1
            assert status(stage)["datasets"][0]["damaged_files"] == [name]
        elif name == "f24":
            return  # of a long file nothing is kept, and no block of it has a checksum
        assert read(stage, mount, 2) == [{**expected(stage), name: -errno.EIO}] * 2


@pytest.mark.soak
def test_two_jobs_share_what_is_resident(stage: Stage, dataset: Path) -> None:
    with (
        serving(stage, dataset, "--stage", "plan", "--local-bytes", "5M") as one,
        serving(stage, dataset, "--stage", "lazy", mount="other") as other,
    ):
        until_filled(stage)
        assert read(stage, other) == [expected(stage)]
        assert status(stage, "other")["node"]["kept_records"] > 0
        before = shared_bytes(stage)
        assert read(stage, one) == [expected(stage)]
        assert shared_bytes(stage) - before == LONG_BYTES
    assert stage.leftovers() == []


def test_damage_is_in_the_report(stage: Stage, dataset: Path) -> None:
    """Nobody asked for the status before."""
    flip(*find_content(dataset, stage.files["f21"][:4096]))
    argv = (sys.executable, "-c", DIGESTS, str(stage.mount), "1")
    done = stage.run(dataset, *argv, options=("--stage", "lazy"))
    assert "1 error, 1 damaged file" in done.stderr


@pytest.mark.soak
def test_two_datasets_share_the_room(stage: Stage, dataset: Path) -> None:
    other = {f"g{n}": os.urandom(700_000) for n in range(10)}
    second = stage.dataset(stage.source("second", other), "more", "--partitions", "2")
    allowed = 9 * MIB
    more = ("--dataset", str(second), "--mount", str(stage.path / "mount-2"), "--keep-staged")
    where = ("--stage", "plan", "--local-bytes", str(allowed), *more)
    for _ in range(2):  # and what the first job kept counts once
        with serving(stage, dataset, *where):
            assert until_filled(stage)["damaged_records"] == 0
            assert allowed - 2 * MIB < disk_bytes(stage) <= allowed


@pytest.mark.soak
def test_a_division_that_is_another_throws_the_old_one_away(stage: Stage, dataset: Path) -> None:
    """As with another number of ranks: what is of no share would take the room of what is."""
    with serving(stage, dataset, "--stage", "plan", "--keep-staged"):
        until_filled(stage)
    (resident,) = stage.local.rglob("resident")
    content = resident.read_bytes()
    bits = 128 + 8 * 3
    resident.write_bytes(content[:bits] + bytes(len(content) - bits))
    with serving(stage, dataset, "--stage", "plan", "--local-bytes", "6M"):
        assert until_filled(stage)["kept_records"] > 0
        assert disk_bytes(stage) <= 6 * MIB


@pytest.mark.soak
def test_names_of_one_long_file(stage: Stage) -> None:
    """Each is a record of its own over the same bytes, which the first brings for all."""
    source = stage.path / "plain"
    os.link(source / "f24", source / "f99")
    stage.files["f99"] = stage.files["f24"]
    dataset = stage.dataset(source, "data", "--partitions", "3")
    with serving(stage, dataset, "--stage", "plan") as mount:
        assert until_filled(stage)["kept_records"] == len(SIZES)
        assert read(stage, mount, 2) == [expected(stage)] * 2
