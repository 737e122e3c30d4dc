"""Workers go to the ranks of a node that wait for their batches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from loader_sets import Mixed  # noqa: E402

from fanstore.errors import UsageError  # noqa: E402
from fanstore.torch import DataLoader, WorkerBalance  # noqa: E402
from fanstore.torch.sharing import Rank, shared  # noqa: E402

JOB = Path(__file__).with_name("balance_job.py")


def test_one_more_worker_goes_to_the_rank_that_is_latest() -> None:
    cheap, costly = Rank({2: 0.1}, 0.0), Rank({2: 0.3}, 0.0)
    assert shared([cheap, costly], 1, 8, 4) == [1, 3]
    assert shared([cheap, costly], 1, 2, 4) == [2, 2]
    assert shared([cheap, costly], 2, 8, 3) == [2, 2]
    assert shared([cheap, cheap, costly], 1, 8, 10) == [2, 2, 6]


def test_nobody_gets_more_workers_than_training_needs() -> None:
    ranks = [Rank({2: 0.1}, 0.06), Rank({2: 0.3}, 0.1)]
    assert shared(ranks, 1, 8, 16) == [2, 5]
    # More workers that are slower each: what was measured at 4 holds from there on.
    assert shared([Rank({2: 0.2, 4: 0.4}, 0.081)], 1, 8, 8) == [5]


def test_two_ranks_with_unequal_cost_end_with_unequal_workers(tmp_path: Path) -> None:
    jobs = [
        subprocess.Popen(
            [sys.executable, str(JOB), str(rank), str(tmp_path / "store"), cost, "2"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank, cost in enumerate(("0.0005", "0.1"))
    ]  # fmt: skip
    said = [job.communicate(timeout=120) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], said
    assert [out.split()[:2] for out, _ in said] == [["2", "1"], ["2", "3"]]
    assert "fanstore: rank 0: 1 workers instead of 2: a batch is ready every" in said[0][1]
    assert "fanstore: rank 1: 3 workers instead of 2" in said[1][1]


def test_batches_stay_the_same_when_workers_change() -> None:
    loader = DataLoader(Mixed(), batch_size=4, num_workers=2, persistent_workers=True)
    expected = [batch["number"].tolist() for batch in loader]
    loader.set_workers(1)
    assert [batch["number"].tolist() for batch in loader] == expected
    work_s, train_s = loader.take_times()
    assert len(work_s) == len(train_s) == len(expected)
    assert loader.take_times() == ([], [])


def test_bounds_that_contradict_each_other_are_refused() -> None:
    loader = DataLoader(Mixed(), num_workers=2)
    for bounds in ({"least": 3}, {"most": 1}, {"least": 0}):
        with pytest.raises(UsageError, match="allowed is 1 or more, rising"):
            WorkerBalance(loader, **bounds)
