"""Jobs make their reports at their end: of one node, of two ranks of which one is slow, of jobs
that are started and stopped, and where there is no matplotlib."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mpiexec import needs_ranks
from ranks import FANSTORE, RankStage, make_rank_stage
from slow import SlowTree
from slow_tree import needs_fuse

pytestmark = needs_ranks

READ_TWICE = (
    "import os\n"
    "root = os.environ['FANSTORE_MOUNT_PREFIX']\n"
    "back = os.environ.get('FANSTORE_RANK') == '1'\n"  # each rank its own share first
    "for name in sorted(os.listdir(root), reverse=back) * 2:\n"
    "    open(os.path.join(root, name), 'rb').read()\n"
)
NO_MATPLOTLIB = (
    "import importlib.util as util\n"
    "found = util.find_spec\n"
    "util.find_spec = lambda name, *rest: name != 'matplotlib' and found(name, *rest) or None\n"
)


@pytest.fixture
def stage(tmp_path: Path) -> RankStage:
    return make_rank_stage(tmp_path, 2)


def packed(stage: RankStage) -> Path:
    """A dataset of sixty files, made once."""
    if (stage.path / "data").exists():
        return stage.path / "data"
    files = {f"f{n:02}": bytes([n]) * 30_000 for n in range(60)}
    return stage.dataset(stage.source(files=files))


def run_alone(stage: RankStage, *options: str, code: int = 0, **env: str) -> Any:
    command = [sys.executable, "-c", READ_TWICE]
    argv = [*FANSTORE, "run", *stage.where(packed(stage)), *options, "--", *command]
    return stage.finished(argv, code, **env)


def test_a_job_leaves_a_page_json_and_its_trace(stage: RankStage) -> None:
    out = stage.path / "new" / "report"
    done = run_alone(stage, "--report", str(out))
    assert f"fanstore: report: {out}/report.html\n" in done.stderr
    assert sorted(os.listdir(out)) == ["report.html", "report.json", "report.trace"]
    found = json.loads((out / "report.json").read_text())
    assert [rank["opens"] for rank in found["ranks"]] == [120]
    assert len(found["ranks"][0]["epoch_starts_s"]) == 2
    assert (found["files"]["dataset_files"], found["files"]["never_count"]) == (60, 0)
    assert found["epoch_bytes"] is not None
    stage.assert_clean()


@pytest.mark.soak
def test_what_was_foreseen_is_told(stage: RankStage) -> None:
    out = stage.path / "report"
    names = [f"f{n:02}" for n in range(60)]
    for rank in range(2):
        lines = [f"{name}\n" for name in sorted(names, reverse=rank == 1)]
        (stage.path / f"order-{rank}").write_text("".join(lines))
    command = [sys.executable, "-c", READ_TWICE]
    options = ["--report", str(out), "--order", str(stage.path / "order-{rank}")]
    argv = stage.run_argv(2, [packed(stage)], command, options)
    stage.finished(argv)
    found = json.loads((out / "report.json").read_text())["order"]
    assert found["opens"] == 240 and found["epochs"] > 0
    assert found["predicted"] == 240 and found["broken"] == 0
    assert found["bytes"] > 0 and found["used_bytes"] + found["unread_bytes"] == found["bytes"]
    assert found["waits"] >= 0 and found["waited_s"] >= 0
    stage.assert_clean()


@needs_fuse
@pytest.mark.soak
def test_one_slow_rank_is_named_with_its_source(stage: RankStage) -> None:
    """Rank 1 has its share in a pack that is read slowly, and rank 0 asks it for its share."""
    pack, behind = packed(stage) / "pack-00001.fsp", stage.path / "behind"
    behind.mkdir()
    pack.rename(behind / pack.name)
    pack.symlink_to(stage.path / "slow" / pack.name)
    page = stage.path / "job.html"
    options = ("--stage", "lazy", "--report", str(page))
    run = [*FANSTORE, "run", *stage.where(packed(stage)), *options]
    with SlowTree(behind, stage.path / "slow", latency_s={"read": 0.1}, direct=True):
        command = [sys.executable, "-c", READ_TWICE]
        stage.finished(stage.mpiexec(2, *run, "--", *command))
    found = json.loads((stage.path / "job.json").read_text())
    assert found["advice"], found["ranks"]
    first = found["advice"][0]
    assert (first["figures"]["rank"], first["figures"]["source"]) == (1, "shared"), found["advice"]
    assert "A wait for the shared file system took rank 1 (" in first["sentence"]
    assert "rank 1" in found["headline"].lower(), found["headline"]
    assert first["sentence"] in page.read_text().replace("&#39;", "'")
    assert (stage.path / "job.trace").exists()
    stage.assert_clean()


@pytest.mark.soak
def test_a_started_job_makes_its_report_when_it_is_stopped(stage: RankStage) -> None:
    local = ("--local-dir", str(stage.local_of(0)))
    out = stage.path / "r.html"
    started = [*FANSTORE, "start", *stage.where(packed(stage)), "--report", str(out)]
    stage.finished(started)
    stage.finished([*FANSTORE, "exec", *local, "--", sys.executable, "-c", READ_TWICE])
    done = stage.finished([*FANSTORE, "stop", *local])
    assert f"fanstore: report: {out}\n" in done.stderr
    assert json.loads((stage.path / "r.json").read_text())["ranks"][0]["opens"] == 120


def test_a_job_without_matplotlib_says_so_before_it_begins(stage: RankStage) -> None:
    (stage.path / "sitecustomize.py").write_text(NO_MATPLOTLIB)
    out = stage.path / "report"
    done = run_alone(stage, "--report", str(out), PYTHONPATH=str(stage.path))
    lines = done.stderr.splitlines()
    told = [line for line in lines if "fanstore-fs[plots]'; there will be only JSON" in line]
    opened = [line for line in lines if "files opened" in line]
    assert lines.index(told[0]) < lines.index(opened[0])
    assert lines[-1] == f"fanstore: report: {out}/report.json, and no page without matplotlib"
    assert not any("error" in line for line in lines)
    assert sorted(os.listdir(out)) == ["report.json", "report.trace"]


def test_a_report_needs_a_trace_and_a_place(stage: RankStage) -> None:
    done = run_alone(stage, "--report", str(stage.path / "r"), "--trace", "off", code=125)
    assert "--report needs a trace, and --trace says off" in done.stderr
    (stage.path / "file").write_text("x")
    done = run_alone(stage, "--report", str(stage.path / "file" / "r"), code=125)
    assert "is not a directory" in done.stderr
    assert (stage.path / "file").read_text() == "x"
    os.mkfifo(stage.path / "report.trace")
    done = run_alone(stage, "--report", str(stage.path), code=125)
    assert "--report: " in done.stderr and "is no regular file, and is not replaced" in done.stderr
    assert (stage.path / "report.trace").is_fifo()


@pytest.mark.parametrize("verb", ["run", "start"])
def test_a_job_that_never_starts_leaves_no_directory_for_its_report(
    stage: RankStage, verb: str
) -> None:
    (stage.path / "mine").mkdir()
    command = ("--", "true") if verb == "run" else ()
    missing = (*FANSTORE, verb, *stage.where(stage.path / "no-dataset"))
    for out in (stage.path / "new" / "report", stage.path / "mine"):
        stage.finished([*missing, "--report", str(out), *command], 125 if verb == "run" else 2)
    trace = ("--trace", str(stage.path / "no" / "trace"))
    refused = [*FANSTORE, verb, *stage.where(packed(stage)), *trace]
    report = ("--report", str(stage.path / "new" / "report"))
    stage.finished([*refused, *report, *command], 125 if verb == "run" else 2)
    assert not (stage.path / "new").exists()
    assert (stage.path / "mine").is_dir()
