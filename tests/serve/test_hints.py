"""posix_fadvise(WILLNEED) and readahead of an unmodified program bring what it will read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from serving import Stage, make_stage, wait_for
from soak import sampled

from fanstore.job.jobs import ask_status, find_jobs
from fanstore.messages.message import encode

MIB = 1 << 20
SMALL = 200_000
LONG_BYTES = 9 * MIB  # never kept on the disk when a part of it is read

# Opens `path`, gives a hint of `bytes` in the way that is named, and says so; goes on when told.
HINT = """
import ctypes, os, sys
path, how, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
fd = os.open(path, os.O_RDONLY)
if how == "fadvise":
    os.posix_fadvise(fd, 0, count, os.POSIX_FADV_WILLNEED)
else:
    libc = ctypes.CDLL(None, use_errno=True)
    number = {"readahead": None, "raw": 187}[how]
    rc = (libc.readahead(fd, ctypes.c_long(0), ctypes.c_size_t(count)) if number is None else
          libc.syscall(number, fd, ctypes.c_long(0), ctypes.c_size_t(count)))
    assert rc == 0, ctypes.get_errno()
print("hinted", flush=True)
sys.stdin.readline()
print(len(os.pread(fd, 1 << 30, 0)), flush=True)
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path)
    files = {"small": os.urandom(SMALL), "long": os.urandom(LONG_BYTES)}
    stage.source(files=files)
    return stage


def node(stage: Stage) -> dict[str, Any]:
    (job,) = find_jobs(str(stage.local))
    found: dict[str, Any] = encode(ask_status(job))["node"]
    return found


class Hinting:
    """A program of the job that gave a hint, and has read nothing yet."""

    def __init__(self, stage: Stage, name: str, how: str, count: int) -> None:
        argv = [sys.executable, "-m", "fanstore", "exec", "--", sys.executable, "-c", HINT]
        argv += [str(stage.mount / name), how, str(count)]
        self.process = subprocess.Popen(
            argv, env=stage.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "hinted\n"

    def read(self) -> int:
        """Lets it read the file to its end; returns how many bytes those were."""
        out, err = self.process.communicate("\n", timeout=60)
        assert self.process.returncode == 0, err
        return int(out)


@pytest.mark.parametrize("how", sampled(["fadvise", "readahead", "raw"], ["fadvise"]))
def test_a_hint_brings_what_is_read_later(stage: Stage, how: str) -> None:
    """A short file of this node's share comes to its disk, of a long one the blocks hinted at to
    the cache; then the shared file system is not needed for them any more."""
    dataset = stage.dataset(stage.path / "plain", "data")
    where = ["--dataset", str(dataset), "--mount", str(stage.mount), "--stage", "lazy"]
    stage.call("start", *where)
    try:
        short = Hinting(stage, "small", how, SMALL)
        wait_for(lambda: node(stage)["kept_records"] == 1, "the file to be kept")
        assert node(stage)["ahead"] == 0
        long = Hinting(stage, "long", how, LONG_BYTES)
        wait_for(lambda: node(stage)["resident_bytes"] == LONG_BYTES, "all blocks to be cached")
        assert node(stage)["ahead"] == 9 and node(stage)["kept_records"] == 1
        dataset.rename(dataset.with_name("gone"))
        assert (short.read(), long.read()) == (SMALL, LONG_BYTES)
    finally:
        stage.call("stop")


def test_a_hint_is_no_read(stage: Stage) -> None:
    """Where nothing can be brought, a hint succeeds as on a plain file, and the read says what is
    wrong."""
    dataset = stage.dataset(stage.path / "plain", "data")
    where = ["--dataset", str(dataset), "--mount", str(stage.mount), "--stage", "lazy"]
    stage.call("start", *where)
    try:
        dataset.rename(dataset.with_name("gone"))
        hinting = Hinting(stage, "long", "fadvise", LONG_BYTES)
        wait_for(lambda: node(stage)["outstanding"] == 0, "the hint to be given up")
        out, err = hinting.process.communicate("\n", timeout=60)
        assert out == "" and "[Errno 5]" in err
    finally:
        stage.call("stop")
