"""CoordinatedDataLoader: a search of four jobs decodes once, and changes no loss."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from serving import Stage
from test_coordinate import lines, started

pytest.importorskip("torch", reason="torch is not installed")
JOB = Path(__file__).with_name("torch_job.py")
RATES = {"a": "0.01", "b": "0.02", "c": "0.03", "d": "0.04"}


def begin(stage: Stage, name: str, jobs: int, *more: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fanstore", "exec", "--", sys.executable, str(JOB),
         str(stage.path), name, str(jobs), RATES[name[0]], *more],
        env={**stage.env, **environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def losses(job: subprocess.Popen[str]) -> list[str]:
    out, said = job.communicate(timeout=120)
    assert job.returncode == 0, said
    return out.split()


def test_four_jobs_decode_once_an_epoch_and_have_the_losses_of_each_alone(tmp_path: Path) -> None:
    with started(tmp_path) as stage:
        jobs = {name: begin(stage, name, 4) for name in RATES}
        together = {name: losses(job) for name, job in jobs.items()}
        decoded = Counter(line for name in RATES for line in lines(stage, "decoded", name))
        # Beside two epochs, each job looks at sample 0 once to see what a batch consists of.
        assert decoded == Counter({str(n): 2 for n in range(20)}) + Counter({"0": 4})
        for name in RATES:
            assert losses(begin(stage, name + "-alone", 1)) == together[name]
        assert len({tuple(each) for each in together.values()}) == 4


def begin_pair(stage: Stage, name: str, jobs: int) -> list[subprocess.Popen[str]]:
    """The two processes of a DDP job."""
    meeting = str(stage.path / f"meeting-{name}")
    return [
        begin(stage, f"{name}{rank}", jobs, RANK=str(rank), WORLD_SIZE="2", MEETING=meeting)
        for rank in range(2)
    ]


def test_jobs_of_two_processes_decode_once(tmp_path: Path) -> None:
    with started(tmp_path) as stage:
        pairs = {name: begin_pair(stage, name, 2) for name in "ab"}
        together = {name: [losses(each) for each in pair] for name, pair in pairs.items()}
        noted = [name + rank for name in "ab" for rank in "01"]
        decoded = Counter(line for name in noted for line in lines(stage, "decoded", name))
        assert decoded == Counter({str(n): 2 for n in range(20)}) + Counter({"0": 4})
        alone = begin_pair(stage, "b-alone", 1)
        assert [losses(each) for each in alone] == together["b"] != together["a"]


def test_a_killed_job_of_two_processes_leaves_the_other_whole(tmp_path: Path) -> None:
    with started(tmp_path) as stage:
        staying, dying = begin_pair(stage, "a", 2), begin_pair(stage, "b", 2)
        assert dying[0].stdout is not None
        dying[0].stdout.readline()
        for each in dying:
            each.kill()
            each.communicate()
        found = [losses(each) for each in staying]
        assert found == [losses(each) for each in begin_pair(stage, "a-alone", 1)]


def test_other_batch_sizes_are_refused(tmp_path: Path) -> None:
    with started(tmp_path) as stage:
        jobs = [begin(stage, "a", 2, "4"), begin(stage, "b", 2, "5")]
        done, pending = jobs
        while done.poll() is None and pending.poll() is None:
            done, pending = pending, done
        refused, other = (done, pending) if done.poll() is not None else (pending, done)
        assert "the jobs of 'default' must agree" in refused.communicate()[1]
        other.kill()
        other.communicate()
