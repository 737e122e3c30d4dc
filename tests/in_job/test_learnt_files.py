"""Jobs whose datasets have no list of files: which those are is learnt while they are read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from serving import Stage, make_stage
from test_torch_jobs import run_job, stage

torch = pytest.importorskip("torch")
__all__ = ["stage"]


def share(said: str) -> float:
    return float(said.partition("known for ")[2].partition(" %")[0] or 0)


_NAMED = ("named", "named_subset", "named_alone", "named_batches", "named_in_threads")


@pytest.mark.parametrize("workers", [{"WORKERS": "0"}, {"WORKERS": "2", "CONTEXT": "fork"}])
@pytest.mark.parametrize("name", _NAMED)
def test_samples_are_known_from_the_second_epoch_on(
    stage: Stage, name: str, workers: dict[str, str]
) -> None:
    watched, said = run_job(stage, name, FANSTORE_KEEP_LEARNT="off", **workers)
    assert share(said) > 50, said  # two of three epochs, but for what is seen late
    alone, _ = run_job(stage, name, order="off", **workers)
    assert watched == alone


_PERMUTED = """
import os, sys, time, numpy, torch
from torch.utils import data

class Permuted(data.Dataset):
    def __init__(self, root):
        self.samples = sorted(os.path.join(d, f) for d, _, files in os.walk(root) for f in files)
        self.order = numpy.random.default_rng(7).permutation(len(self.samples))
    def __len__(self):
        return len(self.samples)
    def __getitem__(self, index):
        time.sleep(0.001)  # slow enough to be seen
        return len(open(self.samples[self.order[index]], "rb").read())

loader = data.DataLoader(Permuted(sys.argv[1]), batch_size=4, shuffle=True)
for _ in range(4):
    for batch in loader:
        pass
"""


def test_a_list_that_proved_wrong_is_dropped(tmp_path: Path) -> None:
    """The first epoch of four goes another way than by the list, and in the second it is learnt."""
    stage = make_stage(tmp_path)
    stage.source(files={f"c{n % 7}/{n:03}": b"%d" % n for n in range(700)})
    done = stage.call(
        "run", str(tmp_path / "plain"), "--mount", str(stage.mount), "--",
        sys.executable, "-c", _PERMUTED, str(stage.mount),
    )  # fmt: skip
    assert share(done.stderr) > 20, done.stderr  # without that 4, mostly 50


def test_a_second_job_knows_them_from_its_first_batch(stage: Stage) -> None:
    env = {"FANSTORE_KEEP_LEARNT": "on", "WORKERS": "2", "CONTEXT": "fork"}
    names = ("named", "named_subset", "named_in_memory")
    first, said = run_job(stage, *names, **env)
    assert share(said) < 75, said
    again, said = run_job(stage, *names, **env)
    assert share(said) > 99, said
    assert "wrong" not in said
    assert again == first
    learnt = stage.path / "data" / "learnt"
    before = {path: path.stat().st_mtime_ns for path in learnt.glob("samples-*")}
    assert before
    run_job(stage, *names, **env)
    assert before == {path: path.stat().st_mtime_ns for path in learnt.glob("samples-*")}


def test_workers_that_are_started_anew_teach_it(stage: Stage) -> None:
    env = {"FANSTORE_KEEP_LEARNT": "off", "WORKERS": "2", "CONTEXT": "spawn"}
    _, said = run_job(stage, "named_persistent", **env)
    assert share(said) > 60, said
