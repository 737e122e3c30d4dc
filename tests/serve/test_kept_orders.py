"""Orders that are kept for later jobs: with the dataset, or in the user's cache."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from inprocess import call
from serving import Stage, make_stage
from small_disk import small_disk

from fanstore.foresight.kept import KeptFiles, KeptOrders

ID = "0123456789abcdef" * 2
PROGRAM = textwrap.dedent("""
    import os, random, sys, time
    root = os.environ["FANSTORE_MOUNT_PREFIX"]
    for seed in sys.argv[1:]:
        paths = [os.path.join(root, name) for name in sorted(os.listdir(root))]
        random.Random(seed).shuffle(paths)
        for path in paths:
            open(path, "rb").read()
            time.sleep(0.001)
""")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path)
    stage.dataset(stage.source(files={f"f{n:04}": bytes([n % 251]) * 50 for n in range(1000)}))
    return stage


def run(stage: Stage, *seeds: str, **env: str) -> str:
    """Runs a program that reads all files once for each seed; returns what FanStore says."""
    env = {"FANSTORE_KEEP_LEARNT": "on", "XDG_CACHE_HOME": str(stage.path / "cache"), **env}
    where = ("--dataset", str(stage.path / "data"), "--mount", str(stage.mount))
    return stage.call("run", *where, "--", sys.executable, "-c", PROGRAM, *seeds, **env).stderr


def share(found: str) -> float:
    return float(found.partition("known for ")[2].partition(" %")[0] or 0)


def kept(stage: Stage) -> Path:
    return stage.path / "data" / "learnt" / "order-0-of-1"


def test_a_second_job_is_known_from_its_first_epoch_on(stage: Stage) -> None:
    assert share(run(stage, "1", "2")) == 0
    assert share(run(stage, "1", "2")) > 90
    assert not (stage.path / "cache").exists()
    before = kept(stage).read_bytes()
    assert share(run(stage, "1")) > 90
    assert kept(stage).read_bytes() == before
    assert os.listdir(kept(stage).parent) == [kept(stage).name]
    assert stage.call("verify", str(stage.path / "data")).returncode == 0


@pytest.mark.soak
def test_jobs_that_differ_are_kept_side_by_side(stage: Stage) -> None:
    assert [share(run(stage, seed)) for seed in "123"] == [0, 0, 0]
    assert all(share(run(stage, seed)) > 80 for seed in "312")


@pytest.mark.soak
def test_it_can_be_left_alone(stage: Stage) -> None:
    run(stage, "1", FANSTORE_KEEP_LEARNT="off")
    assert not kept(stage).parent.exists()
    run(stage, "1")
    assert share(run(stage, "1", FANSTORE_KEEP_LEARNT="off")) == 0


@pytest.mark.soak
def test_a_damaged_file_is_said_and_replaced(stage: Stage) -> None:
    run(stage, "1")
    whole = kept(stage).read_bytes()
    for damaged in (b"", whole[:-1], whole[:100] + b"\xff" + whole[101:], b"FANKEPT1"):
        kept(stage).write_bytes(damaged)
        said = run(stage, "1")
        assert share(said) == 0
        assert said.count(f"{kept(stage)} is damaged, and is not used") == 1
        assert kept(stage).read_bytes() == whole


def test_a_fifo_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, said = files_in(tmp_path, monkeypatch)
    path = tmp_path / "data" / "learnt" / "what"
    path.parent.mkdir()
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    try:
        assert files.read("what") == []
    finally:
        os.close(writer)
    assert said == [f"{path} is damaged, and is not used; it may be removed"]
    files.write("what", b"new")
    assert files.read("what") == [b"new"]


def files_in(
    path: Path, monkeypatch: pytest.MonkeyPatch, identity: str = ID
) -> tuple[KeptFiles, list[str]]:
    """The files of a dataset, and what is said of them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(path / "cache"))
    (path / "data").mkdir(exist_ok=True)
    said: list[str] = []
    return KeptFiles(str(path / "data"), identity, said.append), said


def test_what_is_kept_of_another_dataset_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files_in(tmp_path, monkeypatch)[0].write("what", b"content")
    assert files_in(tmp_path, monkeypatch)[0].read("what") == [b"content"]
    assert files_in(tmp_path, monkeypatch, ID[::-1])[0].read("what") == []


@pytest.mark.parametrize(
    "words", [[], [2], [1, 3, 0, 0], [1, 2, 0, 99], [2**32 - 1], [2, 2**31, 2**31]]
)
def test_what_makes_no_sense_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[int]
) -> None:
    files, said = files_in(tmp_path, monkeypatch)
    files.write("order-0-of-1", np.array(words, "<u4").tobytes())
    assert KeptOrders(files, 50, 0, 1).load() == []
    assert len(said) == 1 and "not used" in said[0]


def test_the_members_of_a_group_share_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, said = files_in(tmp_path, monkeypatch)
    (tmp_path / "data").chmod(0o2770)
    previous = os.umask(0o077)
    try:
        files.write("order-0-of-1", b"content")
    finally:
        os.umask(previous)
    learnt = tmp_path / "data" / "learnt"
    assert oct(learnt.stat().st_mode & 0o7777) == oct(0o2770)
    assert oct((learnt / "order-0-of-1").stat().st_mode & 0o7777) == oct(0o660)
    assert said == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become two users")
def test_another_member_of_the_group_replaces_the_dataset() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # where every user may look
        place = Path(name)
        place.chmod(0o777)
        (place / "source").mkdir()
        (place / "source" / "file").touch()
        prepare = ("prepare", "--quiet", "--force", place / "source", place / "data")
        call(*prepare)  # what it imports is imported then
        shutil.rmtree(place / "data")
        as_user(60001, 0o002, lambda: call(*prepare))
        files = KeptFiles(str(place / "data"), ID, pytest.fail)
        as_user(60001, 0o077, lambda: files.write("order-0-of-1", b"content"))
        as_user(60002, 0o002, lambda: call(*prepare))
        assert sorted(os.listdir(place)) == ["data", "source"]
        assert (place / "data").stat().st_uid == 60002


def as_user(user: int, umask: int, work: Callable[[], object]) -> None:
    """Does something in a process of another user, of one group."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(60000)
            os.setuid(user)
            os.umask(umask)
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_cache_takes_what_the_dataset_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, _ = files_in(tmp_path, monkeypatch)
    (tmp_path / "data" / "learnt").write_text("a file")
    order = np.arange(100, dtype=np.uint32)
    KeptOrders(files, 100, 0, 1).add([order])
    assert [each.tolist() for each in KeptOrders(files, 100, 0, 1).load()] == [order.tolist()]
    assert (tmp_path / "cache" / "fanstore" / "learnt" / ID / "order-0-of-1").exists()


def test_a_full_disk_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk):
        files, said = files_in(disk, monkeypatch)
        files.write("what", b"old")
        files.write("what", os.urandom(2 << 20))
        assert files.read("what") == [b"old"]
        assert os.listdir(disk / "data" / "learnt") == ["what"]
    assert len(said) == 1 and "No space left on device" in said[0]


def test_there_is_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, _ = files_in(tmp_path, monkeypatch)
    for seed in range(12):
        order = np.random.default_rng(seed).permutation(1000).astype(np.uint32)
        KeptOrders(files, 1000, 0, 1).add([order])
    found = KeptOrders(files, 1000, 0, 1).load()
    assert len(found) == 8 and found[0].tolist() == order.tolist()
    long = KeptOrders(files, 1000, 3, 1 << 20)
    long.add([np.tile(order, 100)])
    assert [len(each) for each in long.load()] == [65536 + 4]
