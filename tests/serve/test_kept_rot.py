"""Packs that were kept for the next job, and whose bytes are wrong by then: what is read is right,
and what is wrong is brought anew."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from fault_tools import command_of
from mpiexec import needs_ranks
from ranks import make_rank_stage
from serving import Stage, daemon_of, find_content, flip, make_stage, wait_for
from soak import sampled
from test_partial_packs import (
    DIGESTS,
    SIZES,
    expected,
    read,
    serving,
    shared_bytes,
    status,
)

MODES = ("full", "plan", "lazy")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path)
    half = {f"f{n:02}": os.urandom(size // 2) * 2 for n, size in enumerate(SIZES)}
    stage.source(files=half)
    return stage


def make(stage: Stage, codec: str = "store") -> Path:
    source = stage.path / "plain"
    return stage.dataset(source, "data", "--partitions", "3", "--codec", codec)


def kept_packs(local: Path) -> list[Path]:
    found = local.glob(".fanstore-*/datasets/*/pack-*")
    return sorted(path for path in found if path.name.endswith((".fsp", ".fsp.sparse")))


def until_checked(stage: Stage) -> dict[str, Any]:
    """What the node says when all that is to come to the disk has come, and was checked."""
    wait_for(lambda: not status(stage)["node"].get("filling_ahead"), "the end of the checks")
    return {"mended_records": 0, **status(stage)["node"]}


def rot(local: Path) -> None:
    """Changes one byte in every 50,000; sizes and times stay."""
    packs = kept_packs(local)
    assert packs
    for pack in packs:
        before = pack.stat()
        for at in range(5000, before.st_size - 5000, 50_000):
            flip(pack, at)
        os.utime(pack, ns=(before.st_atime_ns, before.st_mtime_ns))


def run(stage: Stage, dataset: Path, *options: str, rounds: int = 2) -> tuple[list[Any], str]:
    """What a job reads of all files, and what it says."""
    argv = (sys.executable, "-c", DIGESTS, str(stage.mount), str(rounds))
    done = stage.run(dataset, *argv, options=("--keep-staged", *options))
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.parametrize("codec", sampled(["store", "zstd"], ["zstd"]))
@pytest.mark.parametrize("mode", sampled(MODES, MODES[:1]))
def test_what_rotted_is_read_right_and_mended(stage: Stage, mode: str, codec: str) -> None:
    dataset, option = make(stage, codec), f"--stage={mode}"
    run(stage, dataset, option)
    rot(stage.local)
    found, said = run(stage, dataset, option)
    assert found == [expected(stage)] * 2
    assert "that an earlier job had left there had changed" in said
    found, said = run(stage, dataset, option)
    assert found == [expected(stage)] * 2
    assert "had changed" not in said


@pytest.mark.soak
def test_a_job_that_reads_nothing_mends_it_meanwhile(stage: Stage) -> None:
    dataset = make(stage)
    with serving(stage, dataset, "--keep-staged"):
        pass
    rot(stage.local)
    with serving(stage, dataset, "--keep-staged"):
        assert until_checked(stage)["mended_records"] == len(SIZES) - 1  # all but the tiny one
    with serving(stage, dataset, "--keep-staged"):
        assert until_checked(stage)["mended_records"] == 0


def test_what_is_sound_costs_no_reading_of_the_shared_file_system(stage: Stage) -> None:
    dataset = make(stage)
    for options in (("--stage", "full"), ("--stage", "plan")):
        with serving(stage, dataset, *options, "--keep-staged"):
            until_checked(stage)
        with serving(stage, dataset, *options, "--keep-staged") as mount:
            until_checked(stage)
            assert read(stage, mount, 2) == [expected(stage)] * 2
            node = status(stage)["node"]
            assert shared_bytes(stage) == node["mended_records"] == node["damaged_records"] == 0
            assert status(stage)["datasets"][0]["copied_packs"] == 0


@pytest.mark.soak
def test_where_the_source_is_gone_what_rotted_is_an_error(stage: Stage) -> None:
    """Right bytes or EIO, never wrong ones; and once it is back, all is right."""
    dataset = make(stage)
    run(stage, dataset)
    rot(stage.local)
    away = dataset.with_name("away")
    with serving(stage, dataset, "--keep-staged") as mount:
        packs = sorted(dataset.glob("pack-*"))
        away.mkdir()
        for pack in packs:
            pack.rename(away / pack.name)
        (found,) = read(stage, mount)
        right = expected(stage)
        assert all(found[name] in (right[name], -errno.EIO) for name in right)
        for pack in packs:
            (away / pack.name).rename(pack)
        assert read(stage, mount) == [right]


@pytest.mark.parametrize("mode", sampled(MODES, MODES[:1]))
def test_what_rotted_here_and_at_its_source_is_damaged(stage: Stage, mode: str) -> None:
    dataset, option = make(stage), f"--stage={mode}"
    run(stage, dataset, option)
    rot(stage.local)
    flip(*find_content(dataset, stage.files["f21"][:4096]))
    found, said = run(stage, dataset, option)
    assert found == [{**expected(stage), "f21": -errno.EIO}] * 2
    assert "1 damaged file" in said


@pytest.mark.soak
def test_a_killed_job_keeps_what_it_had_no_time_to_check(stage: Stage) -> None:
    dataset = make(stage)
    with serving(stage, dataset, "--stage", "plan", "--keep-staged"):
        until_checked(stage)
    for _ in range(3):
        where = ["--dataset", str(dataset), "--mount", str(stage.mount), "--stage", "plan"]
        with stage.running("run", *where, "--keep-staged", "--", "sleep", "30") as job:
            wait_for(lambda job=job: command_of(job.pid), "the command")
            os.kill(daemon_of(job.pid), signal.SIGKILL)
            os.kill(command_of(job.pid), signal.SIGTERM)
            job.communicate(timeout=60)
    with serving(stage, dataset, "--stage", "plan", "--keep-staged") as mount:
        until_checked(stage)
        assert read(stage, mount) == [expected(stage)]
        assert shared_bytes(stage) == 0


def test_an_index_that_rotted_is_brought_anew(stage: Stage) -> None:
    dataset = make(stage)
    run(stage, dataset)
    (index,) = stage.local.glob(".fanstore-*/datasets/*/index.fsi")
    before = index.stat()
    flip(index, before.st_size - 100)
    os.utime(index, ns=(before.st_atime_ns, before.st_mtime_ns))
    found, _ = run(stage, dataset)
    assert found == [expected(stage)] * 2


@pytest.mark.soak
@needs_ranks
def test_other_ranks_get_nothing_that_rotted(tmp_path: Path) -> None:
    stage = make_rank_stage(tmp_path)
    files = {f"f{n:02}": os.urandom(100_000 + n) for n in range(30)}
    source = tmp_path / "plain"
    source.mkdir()
    for name, content in files.items():
        (source / name).write_bytes(content)
    dataset = tmp_path / "data"
    stage.call("prepare", str(source), str(dataset), "--partitions", "4")
    right = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    program = tmp_path / "program.py"
    program.write_text(DIGESTS)
    read = shlex.join([sys.executable, str(program)])
    script = f"{read} $FANSTORE_MOUNT_PREFIX 2 > {tmp_path}/said-$FANSTORE_RANK"
    for _ in range(2):
        stage.run_ranks(2, dataset, "sh", "-c", script, options=("--keep-staged",))
        for rank in range(2):
            said = (tmp_path / f"said-{rank}").read_text()
            assert [json.loads(line) for line in said.splitlines()] == [right] * 2
            rot(stage.local_of(rank))
