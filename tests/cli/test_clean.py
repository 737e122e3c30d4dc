"""`fanstore clean`: what jobs left goes, what a job uses or what is nowhere else stays."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from serving import Stage, command_of, make_stage, runs, wait_for

from fanstore.job.cleaning import bytes_below


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def keep_a_copy(stage: Stage) -> tuple[Path, Path]:
    """A dataset, and where --keep-staged left its copy."""
    dataset = stage.dataset()
    stage.run(dataset, "true", options=("--keep-staged",))
    (kept,) = stage.local.glob(".fanstore-*/datasets/*")
    return dataset, kept


def test_what_keep_staged_left_is_listed_and_removed(stage: Stage) -> None:
    _, kept = keep_a_copy(stage)
    listed = stage.call("clean", "--dry-run").stdout
    assert f"would be removed: staged dataset {kept} (" in listed and "KiB)" in listed
    (row,) = json.loads(stage.call("clean", "--dry-run", "--json").stdout)["found"]
    assert row["bytes"] == sum(path.stat().st_size for path in kept.iterdir())
    assert (kept / "pack-00000.fsp").exists()
    assert f"removed: staged dataset {kept} (" in stage.call("clean").stdout
    assert stage.leftovers() == []
    assert "nothing to remove" in stage.call("clean").stdout


def test_a_partial_pack_has_the_size_that_it_takes(stage: Stage) -> None:
    files = {"large": bytes(3_000_000), "small": b"s"}
    dataset = stage.dataset(stage.source(files=files), "data", "--partitions", "1")
    read = ("head", "-c", "1", str(stage.mount / "small"))
    stage.run(dataset, *read, options=("--keep-staged", "--stage", "lazy"))
    (kept,) = stage.local.glob(".fanstore-*/datasets/*/*.sparse")
    assert kept.stat().st_size > 3_000_000
    (row,) = json.loads(stage.call("clean", "--dry-run", "--json").stdout)["found"]
    assert row["bytes"] < 1_000_000


def test_what_a_job_uses_stays(stage: Stage) -> None:
    dataset, kept = keep_a_copy(stage)
    where = ("--dataset", str(dataset), "--mount", str(stage.mount), "--keep-staged")
    with stage.running("run", *where, "--", "sleep", "60") as run:
        wait_for(lambda: command_of(run.pid), "the command")
        for options in [("--dry-run",), ()]:
            said = stage.call("clean", *options).stdout
            assert f"kept: staged dataset {kept}" in said and "kept: job " in said
            assert said.count(": a job uses it\n") == 2
        assert (kept / "pack-00000.fsp.ok").exists() and stage.mount.is_dir()
        run.terminate()
        assert run.wait(60) == 143
    assert (kept / "pack-00000.fsp").exists()  # --keep-staged holds, as if nobody had asked
    stage.call("clean")
    assert stage.leftovers() == []


def test_outputs_that_a_job_is_just_putting_aside_stay(stage: Stage) -> None:
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount))
    with stage.running("run", *where, "--", "sleep", "60") as run:
        wait_for(lambda: command_of(run.pid), "the command")
        (job,) = stage.local.glob(".fanstore-*/jobs/*")
        aside = job.parent.parent / "unstaged" / job.name / "log"
        aside.parent.mkdir(parents=True)
        aside.write_text("nowhere else")
        said = stage.call("clean", "--unstaged").stdout
        assert f"kept: unstaged outputs {aside.parent} (12 bytes): a job uses it" in said
        assert aside.exists()
        run.terminate()
        assert run.wait(60) == 143
    stage.call("clean", "--unstaged")
    assert stage.leftovers() == []


def test_a_dead_job_goes(stage: Stage) -> None:
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount))
    job = json.loads(stage.call("start", *where, "--json").stdout)
    os.kill(job["daemon_pid"], signal.SIGKILL)
    wait_for(lambda: not runs(job["daemon_pid"]), "the daemon's end")
    said = stage.call("clean").stdout
    assert f"removed: job {job['job_directory']}" in said
    assert f"removed: mount prefix {stage.mount}" in said
    assert stage.leftovers() == []


def test_a_dead_job_whose_outputs_cannot_be_read_is_a_failure(stage: Stage) -> None:
    where = ("--dataset", str(stage.dataset()), "--mount", str(stage.mount))
    job = json.loads(stage.call("start", *where, "--json").stdout)
    os.kill(job["daemon_pid"], signal.SIGKILL)
    wait_for(lambda: not runs(job["daemon_pid"]), "the daemon's end")
    Path(job["job_directory"], "placed").write_text('{"version": 0}')
    Path(job["job_directory"], "out/0/checkpoint").write_text("kept")
    done = stage.call("clean", code=125)
    assert "what it wrote cannot be read: there is no record of where it belongs" in done.stdout
    assert os.path.isdir(job["job_directory"])


def test_outputs_that_are_nowhere_else_go_only_when_that_is_said(stage: Stage) -> None:
    blocked = stage.path / "out"
    # A file where a directory should be.
    script = f"touch {blocked}; echo new >{stage.mount}/log"
    where = ("--output-dir", str(blocked))
    stage.run(stage.dataset(), "sh", "-c", script, options=where, code=125)
    (kept,) = [path for path in stage.local.rglob("log") if path.is_file()]
    assert kept.read_text() == "new\n"
    for options in [("--dry-run",), ()]:
        said = stage.call("clean", *options).stdout
        assert f"kept: unstaged outputs {kept.parent} (4 bytes): it is nowhere else" in said
    assert kept.exists()
    assert "removed: unstaged outputs" in stage.call("clean", "--unstaged").stdout
    assert stage.leftovers() == []


def test_holes_of_files_are_not_counted(tmp_path: Path) -> None:
    with (tmp_path / "names").open("wb") as stream:
        stream.truncate(1 << 30)
    (tmp_path / "small").write_bytes(b"five\n")
    assert bytes_below(str(tmp_path)) == 5
