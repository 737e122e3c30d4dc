"""Lists of very many files go to the disk: the dataset is the same, memory and disk are left."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from inprocess import call
from small_disk import small_disk
from soak import sampled
from test_update import LIMIT_S, nothing_else

from fanstore.prepare import room

# Runs `fanstore` so that lists of a few files are as lists of very many.
SPILLING = """
import sys
from fanstore.prepare import room
room.ArrayRoom.heap_bytes, room.ArrayRoom.table_slots, room.PIECE = 4096, 64, 1000
from fanstore.cli import main
sys.exit(main(sys.argv[1:]))
"""
PARTITIONS = ["--partitions", "4"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Some thousand entries of all kinds; one directory whose names fill several runs."""
    top, order = tmp_path / "source", random.Random(5)
    for number in range(30):
        directory = top / f"directory-{number % 7}" / f"sub-{number}"
        directory.mkdir(parents=True)
        for name in ("image.jpg", "label.txt", f"own-{number}"):
            (directory / name).write_bytes(order.randbytes(order.choice([0, 10, 700, 70_000])))
        (directory / "link").symlink_to("image.jpg")
        os.link(directory / "image.jpg", top / f"again-{number}")
    (top / "flat").mkdir()
    for _ in range(1500):
        (top / "flat" / order.randbytes(8).hex()).write_bytes(order.randbytes(order.randrange(40)))
    return top


@pytest.fixture
def spilling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room.ArrayRoom, "heap_bytes", 4096)
    monkeypatch.setattr(room.ArrayRoom, "table_slots", 64)
    monkeypatch.setattr(room, "PIECE", 50)


def content(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in data.iterdir()}


@pytest.mark.parametrize("options", [(), ("--replicate", "*label*", "--codec", "lz4")])
def test_the_dataset_is_the_same(
    source: Path, tmp_path: Path, options: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    arguments = ["prepare", "--quiet", *PARTITIONS, *options, source]
    call(*arguments, tmp_path / "before")
    request.getfixturevalue("spilling")
    call(*arguments, tmp_path / "after")
    assert content(tmp_path / "before") == content(tmp_path / "after")
    nothing_else(tmp_path)


def test_an_update_is_the_same(
    source: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for name in ("before", "after"):
        call("prepare", "--quiet", *PARTITIONS, source, tmp_path / name)
    for path in sorted((source / "flat").iterdir())[::3]:
        path.write_bytes(b"changed" * 9)
    call("prepare", "--quiet", "--update", source, tmp_path / "before")
    request.getfixturevalue("spilling")
    call("prepare", "--quiet", "--update", source, tmp_path / "after")
    assert content(tmp_path / "before") == content(tmp_path / "after")
    told = call("prepare", "--update", source, tmp_path / "after")
    assert b"up to date" in told.stdout + told.stderr.encode()


def test_entries_that_are_left_out(
    source: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    os.mkfifo(source / "flat" / "00000000fifo")
    os.mkfifo(source / "directory-1" / "fifo")
    arguments = ["prepare", "--quiet", "--skip-unreadable", *PARTITIONS, source]
    call(*arguments, tmp_path / "before")
    request.getfixturevalue("spilling")
    call(*arguments, tmp_path / "after")
    assert content(tmp_path / "before") == content(tmp_path / "after")


def test_a_full_disk_is_named(source: Path, tmp_path: Path, spilling: None) -> None:
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk", "400k"):
        told = call("prepare", "--quiet", source, tmp_path / "disk" / "data", code=None).stderr
        assert "No space left on device" in told
        assert str(tmp_path / "disk") in told
        assert not list((tmp_path / "disk").iterdir())


def prepare_in_child(source: Path, data: Path, program: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", program, "prepare", "--quiet", *PARTITIONS, source, data]
    return subprocess.Popen(argv, stderr=subprocess.PIPE)


# Kills itself when the room for so many arrays was made.
KILLED = """
import os, signal
from fanstore.prepare import room
zeros, left = room.ArrayRoom.zeros, [{left}]
def dying(self, *arguments):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return zeros(self, *arguments)
room.ArrayRoom.zeros = dying
"""


@pytest.mark.parametrize("left", sampled(range(1, 34, 4), (13,)))
def test_a_kill_with_lists_on_the_disk(source: Path, tmp_path: Path, left: int) -> None:
    call("prepare", "--quiet", *PARTITIONS, source, tmp_path / "fresh")
    program = KILLED.format(left=left) + SPILLING
    child = prepare_in_child(source, tmp_path / "data", program)
    child.communicate(timeout=LIMIT_S)
    assert child.returncode in (0, -signal.SIGKILL)
    if child.returncode == 0:
        assert left > 20
        return
    assert not (tmp_path / "data").exists()
    left_over = {path.name for path in tmp_path.glob(".fanstore-prepare-*/*")}
    assert all(name in ("lock", "for", "made") or name.endswith(".done") for name in left_over)
    for path in tmp_path.glob(".fanstore-prepare-*"):  # one without a lock file waits ten minutes
        os.utime(path, (0, 0))
    child = prepare_in_child(source, tmp_path / "data", SPILLING)
    _, told = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 0, told
    assert content(tmp_path / "fresh") == content(tmp_path / "data")
    assert not list(tmp_path.glob(".fanstore-prepare-*"))


def ends_well(source: Path, data: Path, limit: int) -> bool:
    """Whether a prepare has enough of so many bytes of memory of its own."""
    argv = [sys.executable, "-c", SPILLING, "prepare", "--quiet", "--jobs", "1", source, data]
    child = subprocess.run(
        argv, capture_output=True, timeout=LIMIT_S, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )  # fmt: skip
    shutil.rmtree(data, ignore_errors=True)
    return child.returncode == 0


def make_empty(directory: Path, count: int) -> None:
    directory.mkdir()
    for number in range(count):
        (directory / f"file-{number:08d}").touch()


@pytest.mark.soak
def test_memory_does_not_grow_with_the_files(tmp_path: Path) -> None:
    make_empty(tmp_path / "few", 4_000)
    make_empty(tmp_path / "many", 60_000)  # 440 bytes each would be 26 MB
    too_little, enough = 0, 256
    while enough - too_little > 1:
        middle = (too_little + enough) // 2
        if ends_well(tmp_path / "few", tmp_path / "data", middle << 22):
            enough = middle
        else:
            too_little = middle
    assert enough < 256
    assert ends_well(tmp_path / "many", tmp_path / "data", (enough << 22) + (8 << 20))
