"""Directories in one another, deeper than a path can name: packed, read, made by a job, removed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deep import MAKE, make_deep
from inprocess import call
from serving import Stage, command_of, make_stage, wait_for
from soak import sampled

from fanstore import Dataset
from fanstore.trees import bottom_up, remove_tree

# Enters the tree at argv[1] by descriptors, to its end, and prints what is there.
ENTER = """
import os, sys
at, depth = os.open(sys.argv[1], os.O_RDONLY), 0
while "d" in os.listdir(at):
    below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
    os.close(at)
    at, depth = below, depth + 1
leaf = os.open("leaf", os.O_RDONLY, dir_fd=at)
print(depth, os.listdir(at), os.read(leaf, 9), os.stat("leaf", dir_fd=at).st_size)
"""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A stage that is removed at the end: pytest's way of doing so is recursive."""
    yield make_stage(tmp_path)
    remove_tree(tmp_path)


@pytest.mark.parametrize("depth", sampled([2500, 4200, 8000], [2500]))
def test_a_deep_source_is_packed_verified_extracted_and_read(stage: Stage, depth: int) -> None:
    source, dataset, copy = (stage.path / name for name in ("plain", "data", "copy"))
    make_deep(source, depth, "leaf")
    call("prepare", "--quiet", source, dataset)
    call("verify", dataset)
    call("extract", dataset, copy)
    enter = [sys.executable, "-c", ENTER]
    plain = subprocess.run([*enter, source], capture_output=True, text=True, check=True).stdout
    assert plain == f"{depth} ['leaf'] b'leaf' 4\n"
    assert subprocess.run([*enter, copy], capture_output=True, text=True).stdout == plain
    with Dataset(dataset) as opened:
        assert opened.glob("**/leaf") == ["d/" * depth + "leaf"]
    done = stage.run(dataset, *enter, str(stage.mount))
    assert done.stdout == plain
    assert "changed" not in done.stderr


@pytest.mark.soak
def test_a_job_that_goes_deep_leaves_nothing_that_stops_the_next(stage: Stage) -> None:
    dataset, outputs = stage.dataset(), stage.path / "out"
    options = ("--output-dir", str(outputs))
    stage.run(
        dataset, sys.executable, "-c", MAKE, str(stage.mount), "1100", "leaf", options=options
    )
    assert sum(1 for _ in bottom_up(str(outputs))) == 1101
    assert stage.run(dataset, "cat", str(stage.mount / "f03")).stdout.encode() == stage.files["f03"]
    assert stage.leftovers() == []


@pytest.mark.soak
def test_clean_removes_deep_directories(stage: Stage) -> None:
    """Of a killed job: those in its prefix, and in its own directory."""
    words = ("run", "--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--")
    with stage.running(*words, "sleep", "600") as run:
        wait_for(lambda: command_of(run.pid), "the command")
        (job,) = stage.local.glob(".fanstore-*/jobs/*")
        for place in (stage.mount, job):
            make_deep(place / "deep", 2200)
    wait_for(lambda: "kept" not in stage.call("clean", "--dry-run").stdout, "the job to be over")
    stage.call("clean")
    wait_for(lambda: nothing_left(stage), "the daemon, too, to have removed what it had")


def nothing_left(stage: Stage) -> bool:
    with contextlib.suppress(FileNotFoundError, RecursionError):  # removed meanwhile; not yet
        return stage.leftovers() == []
    return False
