"""Iterators of grain: what they are said to read is what they read."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from serving import make_stage

from fanstore.foresight.order.samplers import samples
from fanstore.in_job import files
from fanstore.in_job.epochs import number_in
from fanstore.in_job.grain_pipelines import Pipelines

grain = pytest.importorskip("grain.python")

_COUNT = 50


class Told:
    """Keeps what a teller would send."""

    def __init__(self) -> None:
        self.orders: list[list[int]] = []
        self.said: list[str] = []
        self.failures: list[Exception] = []

    def tell(self, message: Any, parts: Any) -> None:
        self.orders.append(samples(message["sampler"], {}).tolist())

    def say(self, why: str) -> None:
        self.said.append(why)

    def failed(self, error: Exception) -> None:
        self.failures.append(error)


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(files, "_MAJOR", os.major(os.stat(tmp_path).st_dev))
    made = [tmp_path / f"{number:02}" for number in range(_COUNT)]
    for path in made:
        path.touch()
    return [str(path) for path in made]


def number(path: str) -> int:
    return int(Path(path).name)


def announced(iterator: Any) -> tuple[list[list[int]], list[str]]:
    told = Told()
    pipelines = Pipelines(files, number_in, told)
    for _ in range(2):
        pipelines.drawing(iterator)
    assert told.failures == []
    return told.orders, told.said


class Strange:
    """An iterator of another version of grain."""


def test_a_grain_without_the_expected_parts_is_left_alone() -> None:
    told = Told()
    pipelines = Pipelines(files, number_in, told)
    for _ in range(2):
        pipelines.drawing(Strange())
    assert [type(each) for each in told.failures] == [AttributeError]


STEPS = {
    "none": lambda data: data,
    "shuffle": lambda data: data.shuffle(seed=5),
    "repeated": lambda data: data.shuffle(seed=2**32 - 2).repeat(3),
    "part": lambda data: data[7:40:3].shuffle(seed=1).repeat(2),
    "worker": lambda data: data.shuffle(seed=1).repeat(2)[1::3],
    "mapped": lambda data: data.map(lambda path: path).shuffle(seed=1),
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_a_dataset_reads_as_announced(paths: list[str], steps: Any) -> None:
    iterator = iter(steps(grain.MapDataset.source(paths)).to_iter_dataset())
    orders, said = announced(iterator)
    assert (orders, said) == ([[number(path) for path in iterator]], [])


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("shard", [0, 1, 2])
def test_a_loader_reads_as_announced(
    paths: list[str], shuffle: bool, drop: bool, shard: int
) -> None:
    part = grain.ShardOptions(shard, 3, drop_remainder=drop)
    sampler = grain.IndexSampler(_COUNT, part, shuffle, 2, seed=3)
    loader = grain.DataLoader(data_source=paths, sampler=sampler, worker_count=0)
    whole = loader._dataset  # its innermost dataset is the one that reads
    while not type(whole).__name__.startswith("PrefetchIter"):
        whole = whole._parent
    orders, _ = announced(iter(whole))
    assert orders == [[number(path) for path in loader]]


def test_unknown_steps_are_not_announced(paths: list[str]) -> None:
    data = grain.MapDataset.source(paths)
    unknown = [data.batch(2).shuffle(seed=1), grain.MapDataset.mix([data, data], [0.5, 0.5])]
    for each in unknown:
        assert announced(iter(each.to_iter_dataset())) == ([], [])


def test_a_source_without_a_list_is_reported() -> None:
    orders, said = announced(iter(grain.MapDataset.range(9).to_iter_dataset()))
    assert (orders, said) == ([], [])
    orders, said = announced(iter(grain.MapDataset.source(range(9)).to_iter_dataset()))
    assert orders == []
    assert "range has no list of paths" in said[0]


_JOB = """
import random, sys, torch, grain.python as grain
paths = [f"{sys.argv[1]}/{number:02}" for number in range(40)]
data = grain.MapDataset.source(paths).shuffle(seed=3).repeat(3).map(lambda path: open(path).read())
print(list(data.to_iter_dataset().batch(4)), random.random(), torch.rand(1).item())
"""


def test_a_job_with_grain_is_known_and_notices_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    stage = make_stage(tmp_path)
    stage.dataset(stage.source(files={f"{number:02}": bytes([number]) for number in range(40)}))
    mount = str(stage.path / "plain")
    job = "import random, torch; random.seed(1); torch.manual_seed(1)" + _JOB
    command = ("--mount", mount, "--", sys.executable, "-c", job, mount)
    watched, alone = (
        stage.call("run", "--dataset", str(stage.path / "data"), *command, FANSTORE_ORDER=order)
        for order in ("auto", "off")
    )
    assert watched.stdout == alone.stdout
    assert "known for 100.0 % of opens (grain)" in watched.stderr
