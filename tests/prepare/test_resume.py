"""A prepare that was killed is taken up where its last complete pack ends."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from inprocess import call
from soak import sampled
from test_update import LIMIT_S, make_source, run_ending
from trees import snapshot

PARTITIONS = ["--partitions", "6"]
TAKEN_UP = "of a run that was killed: taken up"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    make_source(tmp_path / "source")
    (tmp_path / "source" / "compresses").write_bytes(b"again and again " * 20_000)
    return tmp_path / "source"


def content(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in data.iterdir()}


def kill_when_noted(source: Path, data: Path, notes: int, *options: str) -> None:
    """Kills a prepare once it has noted so many packs."""
    for step in range(10, 60, 3):  # a pack takes three
        arguments = ["prepare", *(options or PARTITIONS), source, data]
        code = run_ending(step, signal.SIGKILL, data.parent, *arguments)
        assert code == -signal.SIGKILL, "ended before it was killed"
        scratch = next(data.parent.glob(".fanstore-prepare-*"))
        if len(list(scratch.glob("*.done"))) >= notes:
            return
        shutil.rmtree(scratch)
    raise AssertionError


def finish(source: Path, data: Path) -> str:
    told = call("prepare", *PARTITIONS, source, data).stderr
    assert not list(data.parent.glob(".fanstore-prepare-*"))
    return told


def test_complete_packs_are_not_read_again(source: Path, tmp_path: Path) -> None:
    call("prepare", "--quiet", *PARTITIONS, source, tmp_path / "fresh")
    kill_when_noted(source, tmp_path / "data", 3)
    packs = {note.name[:-5] for note in tmp_path.glob(".fanstore-prepare-*/*.done")}
    made = next(tmp_path.glob(".fanstore-prepare-*/made"))
    before = {name: (made / name).stat().st_ino for name in packs}
    assert f"{len(packs)} packs {TAKEN_UP}" in finish(source, tmp_path / "data")
    assert {name: (tmp_path / "data" / name).stat().st_ino for name in packs} == before
    assert content(tmp_path / "data") == content(tmp_path / "fresh")


@pytest.mark.parametrize("harm", sampled(["source", "pack", "note", "plan"], ["pack"]))
@pytest.mark.soak
def test_what_is_not_as_it_was_is_packed_again(source: Path, tmp_path: Path, harm: str) -> None:
    data = tmp_path / "data"
    kill_when_noted(source, data, 2)
    scratch = next(tmp_path.glob(".fanstore-prepare-*"))
    if harm == "source":  # the same size and time, but not the same bytes
        path = source / "a" / "file1"
        found = path.stat()
        path.write_bytes(b"y" * found.st_size)
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    elif harm in ("pack", "note"):
        for note in scratch.glob("*.done"):
            path = note if harm == "note" else scratch / "made" / note.name[:-5]
            with path.open("r+b") as file:
                file.seek(5000 if harm == "pack" else 20)
                file.write(b"harm")
    told = call("prepare", *PARTITIONS[: 0 if harm == "plan" else 2], source, data).stderr
    assert TAKEN_UP not in told
    call("verify", "--quiet", data)
    call("extract", "--quiet", data, tmp_path / "out")
    assert snapshot(tmp_path / "out") == snapshot(source)
    assert not list(tmp_path.glob(".fanstore-prepare-*"))


@pytest.mark.soak
def test_another_destination_leaves_it_alone(source: Path, tmp_path: Path) -> None:
    kill_when_noted(source, tmp_path / "data", 1)
    call("prepare", "--quiet", source, tmp_path / "other")
    assert TAKEN_UP in call("prepare", *PARTITIONS, source, tmp_path / "data").stderr


@pytest.mark.parametrize("option", sampled(["--force", "--update"], ["--update"]))
def test_a_dataset_that_is_there(source: Path, tmp_path: Path, option: str) -> None:
    data = tmp_path / "data"
    call("prepare", "--quiet", *PARTITIONS, source, data)
    (source / "c" / "new").write_bytes(random.Random(1).randbytes(800_000))
    (source / "a" / "file1").write_bytes(b"z" * 90_000)
    arguments = ["prepare", option, source, data]
    before = content(data)
    kill_when_noted(source, data, 1, option)
    assert content(data) == before
    assert TAKEN_UP in call(*arguments).stderr
    call("verify", "--quiet", data)
    call("extract", "--quiet", data, tmp_path / "out")
    assert snapshot(tmp_path / "out") == snapshot(source)
    assert not list(tmp_path.glob(".fanstore-prepare-*"))


@pytest.mark.parametrize("seed", sampled(range(20), (0,)))
def test_kills_at_any_moment(source: Path, tmp_path: Path, seed: int) -> None:
    """However often it is killed, and when, the bytes in the end are those of one run."""
    call("prepare", "--quiet", *PARTITIONS, source, tmp_path / "fresh")
    data, chance = tmp_path / "data", random.Random(seed)
    argv = ["fanstore", "prepare", "--quiet", *PARTITIONS, str(source), str(data)]
    main = "import sys; from fanstore.cli import main; main(sys.argv[2:])"
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", main, *argv]) as process:
            time.sleep(chance.uniform(0.15, 0.6))
            process.kill()
            process.wait(LIMIT_S)
        if data.exists():
            break
    else:
        finish(source, data)
    assert content(data) == content(tmp_path / "fresh")
