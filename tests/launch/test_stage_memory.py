"""--stage memory: packs in the memory of the nodes, what has no room is read as it is needed."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import READ_ALL, Stage, make_stage

from fanstore import config
from fanstore.cli import local as local_module
from fanstore.cli.jobs.job_options import local_directories
from fanstore.cli.local import local_of
from fanstore.errors import UsageError


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory of a tmpfs. Tests that look for leftovers run at the same time, so the directory
    that is taken by default stays alone."""
    path = Path(tempfile.mkdtemp(prefix="test-stage-memory-", dir="/dev/shm"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def digest(stage: Stage) -> str:
    return hashlib.sha256(b"".join(stage.files[name] for name in sorted(stage.files))).hexdigest()


LIST_STAGED = READ_ALL + (
    "import pathlib\n"
    "packs = pathlib.Path(sys.argv[1]).rglob('*.fsp*')\n"
    "print(sum(pack.stat().st_blocks * 512 for pack in packs))\n"
)


def test_packs_are_in_memory_while_the_job_runs(stage: Stage, memory: Path) -> None:
    done = stage.call(
        "run", "--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--local-dir",
        str(memory), "--stage", "memory", "--", sys.executable, "-c", LIST_STAGED,
        str(memory),
    )  # fmt: skip
    found, staged_bytes = done.stdout.split()
    assert found == digest(stage)
    assert int(staged_bytes) >= sum(map(len, stage.files.values()))
    assert list(memory.rglob("*.fsp*")) == []


def test_what_has_no_room_in_memory_is_read_as_it_is_needed(stage: Stage, memory: Path) -> None:
    files = {f"f{number:02}": os.urandom(1 << 20) for number in range(24)}
    dataset = stage.dataset(stage.source(files=files), "data")
    done = stage.call(
        "run", "--dataset", str(dataset), "--mount", str(stage.mount), "--local-dir", str(memory),
        "--stage", "memory", "--memory-bytes", "30M", "--cache-bytes", "10M", "--", sys.executable,
        "-c", LIST_STAGED, str(memory),
    )  # fmt: skip
    found, staged_bytes = done.stdout.split()
    assert found == digest(stage)
    assert 0 < int(staged_bytes) < 20 << 20


def test_a_job_in_memory_is_found(stage: Stage, memory: Path) -> None:
    where = ("--local-dir", str(memory))
    dataset, mount = str(stage.dataset()), str(stage.mount)
    stage.call("start", "--dataset", dataset, "--mount", mount, "--stage", "memory", *where)
    done = stage.call("exec", *where, "--", sys.executable, "-c", READ_ALL)
    assert done.stdout.split() == [digest(stage)]
    stage.call("stop", *where)


def test_a_disk_is_refused(stage: Stage, tmp_path: Path) -> None:
    done = stage.call(
        "run", "--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--stage", "memory",
        "--", "true", code=125,
    )  # fmt: skip
    assert re.search(r"--stage memory: .* is on \S+, not in memory", done.stderr)
    assert "FANSTORE_LOCAL_DIR" in done.stderr


def test_memory_is_taken_and_looked_at_where_no_directory_is_named(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.startswith(("FANSTORE", "SLURM")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("FANSTORE_CONFIG", "")
    settings = config.resolve({"stage": "memory"})
    assert local_of(settings).path == "/dev/shm"
    assert "/dev/shm" in local_directories(None)
    assert local_directories(str(memory)) == [str(memory)]
    monkeypatch.setattr(local_module, "MEMORY_DIR", "/proc")
    with pytest.raises(UsageError, match="/proc"):
        local_of(settings)
